"""Presents results as tables, files, figures and pages."""
