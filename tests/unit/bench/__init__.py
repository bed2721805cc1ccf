"""Claims about the benchmark's own arithmetic and words; no clock is asked."""
