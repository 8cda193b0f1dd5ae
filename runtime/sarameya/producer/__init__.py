"""Records to brokers: `Producer`, idempotent, every record acknowledged by all in-sync replicas. No transactions.

record        what is sent, and what is told of it           PURE
partitioner   which partition a record goes to               PURE
verdicts      what each error code means: one table          PURE
lane          what is on its way to one partition            PURE
outbox        what is on its way: batches and sequences      PURE
sender        requests to leaders, and their answers
deliveries    a call of `send`, from its records to their outcomes
producer      what users hold
"""
