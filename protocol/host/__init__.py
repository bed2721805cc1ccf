"""Host services for both processes: log files, key files, TCP counters, web pages. Knows no messages."""
