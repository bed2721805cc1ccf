"""The lab: localhost experiments, benchmarks and reports."""
