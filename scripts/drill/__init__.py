"""The drill: disturbs federations of real processes on this machine and compares them with undisturbed ones."""
