"""The coordinator's record on disk: the journal, the tensors it names, checks and repairs of a run's folder."""
