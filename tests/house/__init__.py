"""Rules of the house."""
