"""Client of schema registries with Confluent's REST interface. Blocking; for worker threads.

schemas.py          a registered schema (pure)
wire.py             the header of a record that names its schema (pure)
options.py          the registry's address and credentials
http.py             one request, bounded in time and size
client.py           schemas by id, and by subject and version, cached
protobuf_files.py   descriptors of Protobuf schemas, by protoc

Few requests are needed, so the standard library's HTTP client is enough.
"""
