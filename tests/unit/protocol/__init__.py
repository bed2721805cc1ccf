"""Claims about what may be said on the wire."""
