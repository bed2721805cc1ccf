"""Compares rounds that wait with rounds that do not, for the same clients, with slow members and lost updates."""
