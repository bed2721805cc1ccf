"""Watching a run from another process: follow its journal as it grows, and summarise its state."""
