"""Claims about parts working together: real files, real processes."""
