"""Claims about the report: what it reads, decides and draws."""
