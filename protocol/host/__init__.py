"""What both processes ask of their machine: log files, key files, what TCP counted, pages. Knows no message."""
