"""Fetching: broker consumers fetch and distribute, partition consumers feed claims (the same pair as in sarama)."""
