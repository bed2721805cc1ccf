"""Hostile peers, written with plain sockets: they need no key, no library and no part of this project."""
