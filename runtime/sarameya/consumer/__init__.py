"""Reading partitions: broker consumers fetch and fan out, partition consumers feed claims (sarama's pair)."""
