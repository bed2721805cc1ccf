"""Files of a participant: private state, model files, the agreed plan, exported models."""
