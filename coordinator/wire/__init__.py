"""The coordinator's side of the wire: sockets, connections, messages and payloads in and out."""
