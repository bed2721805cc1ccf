"""Computations outside the socket's thread: inspecting reports, computing W, mixing rows."""
