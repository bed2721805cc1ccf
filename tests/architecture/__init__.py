"""Rules of the code base: imports, layers, sizes, names, documents."""
