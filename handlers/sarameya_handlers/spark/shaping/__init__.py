"""What is made of staged records before a table gets them: decoding, a transform; and what a table wants of the rows.

shaping.py        Shaping, a `Shape`: of options, makes frames of landings, names what cannot be decoded
decode_options.py how a column is decoded, as options say it
plans.py          the seam to a format: a codec looks at what is there, and makes a plan of it
json_codec.py, avro_codec.py, protobuf_codec.py    the formats: by Spark's SQL, Protobuf in Spark's Python workers
json_schema.py    JSON Schema as columns
protobuf_files.py .proto files compiled; protobuf_columns.py: messages as columns
wire.py           the prefixes of records that carry their schemas' ids, found in Arrow columns (pure)
framing.py        which of them a registry knows, and the schema that all are read as
transforms.py     flatten, transform, transform_sql, and whose error it is
staged.py         staged files as frames
schemas.py        what differs between rows and a table (pure); conforming.py: rows made what a table wants
partitions.py     the table's partitions that rows touch, and how many
expressions.py    names, strings and types in SQL, which works alike on classic Spark and on Connect
"""
