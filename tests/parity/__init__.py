"""The system against straightforward textbook code."""
