"""Fuzzing in one process: mutated messages against codec, transfers, conversation and both machines; seeded."""
