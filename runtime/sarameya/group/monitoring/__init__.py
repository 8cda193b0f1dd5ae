"""Monitoring: blocked event loops, stacks of tasks, and the status of partitions."""
