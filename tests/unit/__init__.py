"""Claims about single parts."""
