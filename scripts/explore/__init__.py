"""Exhaustive exploration: every order of events, every fault at every point, on the code between the sockets."""
