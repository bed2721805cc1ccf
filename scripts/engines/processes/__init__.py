"""Makes one run as a real federation on this machine: a coordinator and participants, each in its own process."""
