"""The mathematics of personalised federated learning: pure functions on arrays; no sockets, files or clocks."""
