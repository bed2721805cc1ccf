"""What the coordinator decides: pure functions and data; no file, socket, clock, thread or log."""
