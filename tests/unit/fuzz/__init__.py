"""Tests of the fuzzer itself."""
