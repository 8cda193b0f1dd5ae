"""One partition's log: record batches, and the indexes and caches that Kafka keeps beside them. Pure."""
