"""Ways to run a whole federation."""
