"""Sending records: `Producer`, idempotent, every record acknowledged by all in-sync replicas. No transactions.

record            a record, and its place once it is stored      PURE
partitioner       choice of a record's partition                 PURE
verdicts          meaning of each error code: one table          PURE
partition_queue   unacknowledged records of one partition        PURE
outbox            unacknowledged batches, sequences, attempts    PURE
sender            requests to leaders, and their responses
deliveries        a call of `send`, from its records to their outcomes
producer          the public class
"""

from sarameya._kafka_python import import_schemas

import_schemas("kafka.protocol.producer")
