"""Local data, local batch-norm layers, local training, local privacy."""
