"""Defines the messages on the wire, and in which order they may be sent. SPEC.md specifies them; a test compares both.

Pure: no sockets, clocks, logs or files. A shell needs `codec` (messages to frames and back), `conversation` (what may
follow what), `delivery` (when to send something again) and `traffic` (large payloads); the rest serves these.
"""
