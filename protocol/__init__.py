"""What may be said on the wire, and in which order."""
