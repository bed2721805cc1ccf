"""Attacks by one member on the others, and how well defences limit them."""
