"""What both processes ask of the machine they run on: log files, key files, what TCP counted. Knows no message."""
