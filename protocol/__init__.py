"""What may be said on the wire, and in which order. SPEC.md is the law; this code is held to it by a test.

Pure: no sockets, clocks, logs or files. A shell needs `codec` (messages to frames and back), `conversation` (what may
follow what), `delivery` (when to say a thing again) and `traffic` (large payloads); the rest serves these.
"""
