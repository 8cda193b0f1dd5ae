"""What the benches share: Kafka for a bench, Go programs, the machine, medians with their spread, ratios, rows."""
