"""Rounds that wait against rounds that do not: the same clients under slow members and lost updates."""
