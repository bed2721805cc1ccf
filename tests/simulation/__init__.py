"""Claims about machines driven through time."""
