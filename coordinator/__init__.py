"""Who takes part, when a round closes, what is durable. Never imports torch."""
