"""The mathematics of personalised federated learning: pure functions of arrays, no sockets, files or clocks."""
