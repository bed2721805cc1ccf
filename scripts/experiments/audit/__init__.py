"""What an attacker can learn from a run: membership, class proportions, others' updates; measured on our own runs."""
