"""Side-by-side measurements that print ratios."""
