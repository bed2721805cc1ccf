"""What is computed beside the socket: inspecting reports, weighing members, mixing rows."""
