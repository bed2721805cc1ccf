"""The participant's network code: one connection, its messages, and the record of everything sent."""
