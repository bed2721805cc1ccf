"""The lab's experiments: which runs each of them makes, and what it writes about them."""
