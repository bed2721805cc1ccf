"""Claims about the pure parts of the drill."""
