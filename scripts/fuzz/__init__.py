"""Fuzzes codec, transfers, conversation and both machines in one process with mutated messages; seeded."""
