"""Every table and figure of the paper (Lu et al. 2022) as one command: what is run, shown and claimed."""
