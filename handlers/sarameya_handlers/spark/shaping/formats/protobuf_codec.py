"""Protobuf in Spark's Python workers.

Spark's own `from_protobuf` is in a package that not every Spark or package registry has, and that must match Spark's
exact version. Records with any version of a message are read with one schema: Protobuf identifies fields by number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from sarameya import SchemaError
from sarameya.registry.client import Registry
from sarameya.registry.protobuf_files import file_set, message_at
from sarameya.registry.schemas import Schema, SchemaKind
from sarameya.registry.wire import Prefix
from sarameya_handlers.spark.engines.jvm.scratch import owned_directory
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.shaping.formats import protobuf_columns
from sarameya_handlers.spark.shaping.formats.framing import ReaderSchemas, writer_schemas
from sarameya_handlers.spark.shaping.formats.plans import Plan, SqlPlan

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from pyspark.sql import DataFrame


@attrs.frozen(slots=True)
class ProtobufPlan:
    """Decodes one message.

    Attributes:
        descriptors: Descriptor set with the message.
        message: The message's full name.
        prefixes: Accepted prefixes of records; None if records have no prefix.
        unknown: See `Plan`.
    """

    descriptors: bytes
    message: str
    prefixes: frozenset[bytes] | None = None
    unknown: Mapping[bytes, str] = attrs.field(factory=dict)

    def decode(self, frame: DataFrame, column: str) -> DataFrame:
        from pyspark import cloudpickle
        from pyspark.sql.pandas.types import from_arrow_type
        from pyspark.sql.types import StructField, StructType

        # Sends the module to the workers: those of a cluster have protobuf, but perhaps not this package.
        cloudpickle.register_pickle_by_value(protobuf_columns)  # type: ignore[no-untyped-call]
        kind = from_arrow_type(protobuf_columns.arrow_type(self._class()))
        schema = StructType([StructField(f.name, kind) if f.name == column else f for f in frame.schema.fields])
        return frame.mapInArrow(_decode_batches(self.descriptors, self.message, self.prefixes, column), schema)

    def undecodable(self, frame: DataFrame, column: str, records: pa.Table) -> dict[int, str]:
        """Decode in this process: runs of records, and halves of runs that fail. Called only after a failure."""
        from google.protobuf import json_format

        decode = protobuf_columns.columns(self._class())
        found: dict[int, str] = {}
        waiting = [records.select([column, "offset"])]
        while waiting:
            run = waiting.pop()
            offsets = run["offset"].to_pylist()
            try:
                decode(protobuf_columns.bodies(run[column].to_pylist(), self.prefixes, offsets), offsets)
            except (ValueError, OverflowError, TypeError, RecursionError, json_format.Error) as error:
                half = run.num_rows // 2
                if half:
                    waiting += [run.slice(half), run.slice(0, half)]
                elif not isinstance(error, protobuf_columns.UnknownPrefixError):  # `unknown` has these records
                    found[offsets[0]] = _message_of(error, offsets[0])
        return found

    def _class(self) -> Any:
        return protobuf_columns.message_class(self.descriptors, self.message)


def _message_of(error: Exception, offset: int) -> str:
    """Return the decoder's message without the offset, which the caller adds."""
    return str(error).removeprefix(f"the record at offset {offset} ").splitlines()[0]


@attrs.frozen(slots=True, kw_only=True)
class ProtobufCodec:
    """Decodes Protobuf records.

    Attributes:
        column: Name of the column.
        descriptors: Descriptor set of the reader's schema; None for the registry's.
        message: Full name of the message; None for the first one of the registry's schema.
        registry: Set if records carry the ids of their own schemas, and their message.
        subject: Subject in the registry; None for the topic's own.
        readers: Source of reader schemas in the registry.
    """

    column: str
    descriptors: bytes | None = None
    message: str | None = None
    registry: Registry | None = None
    subject: str | None = None
    readers: ReaderSchemas | None = None
    _compiled: dict[int, FileDescriptorSet] = attrs.field(factory=dict, eq=False)

    @property
    def with_message(self) -> bool | None:
        return None if self.registry is None else True

    def plan(self, topic: str, prefixes: Mapping[bytes, Prefix]) -> ProtobufPlan:
        if self.registry is None:
            assert self.descriptors is not None
            assert self.message is not None
            return self._checked(ProtobufPlan(self.descriptors, self.message))
        found = writer_schemas(self.registry, prefixes, SchemaKind.PROTOBUF)
        descriptors, message = self._reader(topic, found.by_id)
        known, problems = set(), found.problems
        for code, schema in found.schemas.items():
            path = prefixes[code].message
            assert path is not None
            name = message_at(self._files(schema).file[-1], path)
            if name == message:
                known.add(code)
            else:
                problems[code] = f"it is {name or f'message {list(path)} of schema {schema.id}'}, not {message}"
        return self._checked(ProtobufPlan(descriptors, message, frozenset(known), problems))

    def probe(self) -> Plan:
        if self.descriptors is None or self.message is None:
            return SqlPlan((), lambda column: "false")
        return self._checked(ProtobufPlan(self.descriptors, self.message))

    def _reader(self, topic: str, ids: Mapping[int, object]) -> tuple[bytes, str]:
        if self.descriptors is not None:
            assert self.message is not None
            return self.descriptors, self.message
        assert self.readers is not None
        schema = self.readers.schema(self.subject or f"{topic}-{self.column}", ids.keys())
        files = self._files(schema)
        message = self.message or message_at(files.file[-1], (0,))
        if message is None:
            raise ShapeError(f"Protobuf schema {schema.id} has no message")
        return files.SerializeToString(), message

    def _files(self, schema: Schema) -> FileDescriptorSet:
        assert self.registry is not None
        if schema.id not in self._compiled:
            referred = self.registry.referred(schema)
            try:
                self._compiled[schema.id] = file_set(schema, referred, owned_directory)
            except SchemaError as error:
                raise ShapeError(str(error)) from error
        return self._compiled[schema.id]

    def _checked(self, plan: ProtobufPlan) -> ProtobufPlan:
        try:
            plan._class()
        except (ValueError, KeyError) as error:
            raise ShapeError(f"there is no Protobuf message {plan.message!r} in its schema: {error}") from error
        return plan


def _decode_batches(
    descriptors: bytes, message: str, prefixes: frozenset[bytes] | None, column: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Return the function that Spark's workers run. It is a closure, so that it is pickled by value."""

    def decode_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decode = protobuf_columns.columns(protobuf_columns.message_class(descriptors, message))
        for batch in batches:
            index = batch.schema.get_field_index(column)
            offsets = batch.column(batch.schema.get_field_index("offset")).to_pylist()
            bodies = protobuf_columns.bodies(batch.column(index).to_pylist(), prefixes, offsets)
            array = decode(bodies, offsets)
            yield batch.set_column(index, column, array)

    return decode_batches
