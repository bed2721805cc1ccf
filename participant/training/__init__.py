"""What is computed at home: measuring, training, evaluating, and checking delivered models."""
