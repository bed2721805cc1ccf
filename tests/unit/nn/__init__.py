"""The torch half: which tensors are whose, statistics, training, evaluation."""
