"""One run as a real federation on this machine: a coordinator and participants, each in a process of its own."""
