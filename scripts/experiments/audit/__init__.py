"""Measures on our own runs what an attacker can learn: membership, class proportions, others' updates."""
