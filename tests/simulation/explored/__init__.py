"""Faults that were once there, put back, for the exploration to find. Each is a process of its own."""
