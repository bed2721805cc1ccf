"""Explores exhaustively every order of events and every fault at every point, on the code between the sockets."""
