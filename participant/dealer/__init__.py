"""The participant's side of the socket: key files, the line, the post on it, and the thread that owns both."""
