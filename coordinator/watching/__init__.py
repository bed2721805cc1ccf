"""A run for whoever watches it from another process: its journal followed as it grows, and what that comes to."""
