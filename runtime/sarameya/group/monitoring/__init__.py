"""Monitoring: blocked event loops, overdue handlers, and the status of partitions."""
