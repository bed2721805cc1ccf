"""The participant's decisions: pure functions and data; no files, sockets, clocks, threads or logs."""
