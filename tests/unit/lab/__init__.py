"""Claims about the parts of the lab, one file per part."""
