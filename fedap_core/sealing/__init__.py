"""The arithmetic of sealed runs, for both sides: fixed point, integer rows, mixing of 64-bit words, check values.

Nothing here needs a key or a pad: the coordinator, which has neither, uses this package too.
"""
