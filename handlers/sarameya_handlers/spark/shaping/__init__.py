"""Shaping: conversion of staged records to a table's rows: decoding, a transform, and the table's own columns.

shaping.py         Shaping, a `Shape` built from options: makes frames, lists the records that it cannot decode
decode_options.py  options for decoding one column      transforms.py      flatten, transform, transform_sql
schemas.py         differences of rows and table (pure) row_conversion.py  rows converted to the table's columns
partitions.py      the table partitions that rows touch errors.py          errors of schemas, transforms and SQL
formats/           JSON, Avro, Protobuf and text, with or without a schema registry
"""
