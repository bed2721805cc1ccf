"""Defines a run of the lab: its settings, its clients' data and its folder. Engines and experiments build on this."""
