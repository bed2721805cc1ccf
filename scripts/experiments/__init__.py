"""Experiments as data: what a run is, how its clients come about, where its results lie."""
