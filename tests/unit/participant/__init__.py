"""Claims about single parts of the participant."""
