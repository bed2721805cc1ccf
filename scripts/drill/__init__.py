"""The drill: federations of real processes on this machine, disturbed on purpose and compared with undisturbed ones."""
