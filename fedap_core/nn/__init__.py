"""The torch half of the mathematics: which tensors are whose, statistics, local training, evaluation."""
