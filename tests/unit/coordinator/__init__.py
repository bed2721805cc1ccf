"""Claims about the coordinator, room by room."""
