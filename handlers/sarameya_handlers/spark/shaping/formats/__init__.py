"""Formats of keys and values: text, JSON and Avro by Spark's SQL, Protobuf in Spark's Python workers.

plans.py             the interface of a format: makes a plan for decoding from options and prefixes
wire.py              prefixes of records with a schema id, found in Arrow columns (pure)
framing.py           SQL for such prefixes, and the schemas that a registry has for them
json_codec.py        text and JSON                      json_schema.py       columns of a JSON Schema (pure)
json_leaves.py       values that Spark would change     json_faults.py       descriptions of a record's faults
avro_codec.py        Avro
protobuf_codec.py    Protobuf                           protobuf_columns.py  messages as Arrow columns
"""
