"""Reproduces every table and figure of the paper (Lu et al. 2022) by one command: runs, figures, claims."""
