"""Shared code of the benches: Kafka, Go programs, the machine, medians with their spread, ratios, rows."""
