"""The coordinator: admits members, closes rounds, mixes weights, keeps the journal. Never imports torch."""
