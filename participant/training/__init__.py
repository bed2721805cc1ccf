"""A participant's computations: measuring, training, evaluating, and checking delivered models."""
