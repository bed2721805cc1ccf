"""The participant's side of the wire: one connection, its messages, and the record of what was sent."""
