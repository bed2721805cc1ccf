"""Claims about the system, one per test."""
