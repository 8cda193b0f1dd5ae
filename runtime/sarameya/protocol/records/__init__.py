"""Record batches: headers, decoding to messages or columns, encoding, compression, aborted transactions. Pure.

batch_headers    headers of undecoded batches               batch_codec    batches to messages, to columns, and back
legacy_records   the formats before record batches          compression    Kafka's codecs, with a bound
column_reader    several batches to columns                 record_walk    the same, without an object per record
record_costs     estimate of the memory of records          transactions   batches of aborted transactions
"""
