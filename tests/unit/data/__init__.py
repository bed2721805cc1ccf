"""The data sources, one test file each."""
