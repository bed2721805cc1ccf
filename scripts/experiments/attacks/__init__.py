"""Attacks by one member on the others, and what defences leave of them."""
