"""Formats of keys and values: bytes to Python objects, and back.

format           what a user names: `Format`        value_types       conversion to a type: by msgspec, pydantic
decoders         bytes to a type, by a format       message_decoder   a message, with both of its columns
encoders         objects to bytes, by a format      record_encoder    a record, with both of its columns
avro, protobuf   by their libraries                 lookups           schemas, each requested once
packages         what has to be installed           errors            of one key or value
"""
