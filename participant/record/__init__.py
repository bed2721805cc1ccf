"""What a participant keeps on disk: private state, model files, the agreement, exported bundles."""
