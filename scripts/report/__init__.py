"""Results as people read them: tables, files, figures."""
