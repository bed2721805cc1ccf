"""A participant: local data, batch norm, training and privacy."""
