"""The log of a partition: record batches, and the indexes and caches that Kafka keeps with them. Pure.

| module | Kafka's counterpart | job |
|---|---|---|
| `partition_log` | UnifiedLog | batches in offset order, and every lookup by offset |
| `batch_validation` | LogValidator | checks of a batch before it is appended |
| `producer_state` | ProducerStateManager | sequence numbers of idempotent producers |
| `transaction_index` | TransactionIndex | open and aborted transactions |
| `transaction_markers` | EndTransactionMarker | control batches that end a transaction |
| `epoch_cache` | LeaderEpochFileCache | leader epochs and where each starts |
| `offset_index` | OffsetIndex | byte positions of some offsets |
"""
