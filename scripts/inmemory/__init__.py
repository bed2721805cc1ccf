"""A federation in memory: the real code between the sockets, with stand-ins for socket, disk, clock and training."""
