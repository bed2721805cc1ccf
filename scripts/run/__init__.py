"""What a run of the lab is: its settings, its clients' data, its folder. Engines and experiments build on this."""
