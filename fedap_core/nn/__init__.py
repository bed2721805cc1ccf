"""The torch half of the mathematics: parts of a model, statistics, local training, evaluation."""
