"""Conversion of an attempt's staged records to rows: decoding, then a transform in Python or SQL."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, cast

import attrs

from sarameya import ConfigError, HandlerError, install_command
from sarameya.option_kinds import boolean
from sarameya.registry.client import Registry
from sarameya.registry.options import RegistryOptions
from sarameya.registry.schemas import SchemaKind
from sarameya.registry.wire import Prefix
from sarameya_handlers.spark.options import load_transform
from sarameya_handlers.spark.shaping.decode_options import COLUMNS, DECODE_OPTIONS, Decode
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.shaping.formats.avro_codec import AvroCodec
from sarameya_handlers.spark.shaping.formats.framing import ReaderSchemas
from sarameya_handlers.spark.shaping.formats.json_codec import JsonCodec, StringCodec
from sarameya_handlers.spark.shaping.formats.plans import ColumnCodec, Plan, survey_column
from sarameya_handlers.spark.shaping.formats.protobuf_codec import ProtobufCodec
from sarameya_handlers.spark.shaping.transforms import (
    analyze,
    apply_transform,
    flatten_value,
    run_query,
    with_shape_errors,
)
from sarameya_handlers.spark.tables.staged_records import KAFKA_COLUMNS, staged_columns, staged_frame
from sarameya_handlers.spark.tables.table import Landing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from sarameya_handlers.spark.options import Transform

SHAPING_OPTIONS = (*DECODE_OPTIONS, "flatten", "transform", "transform_sql", "registry")
"""Every option that `Shaping.from_options` reads."""


@attrs.frozen(slots=True)
class BadRecord:
    """A record that cannot be decoded, with the reason."""

    offset: int
    reason: str


def _check_sql(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigError(attribute.name, value, "must be a query: select ... from batch")


@attrs.frozen(slots=True, kw_only=True)
class Shaping:
    """A `Shape` that decodes key and value, then applies a transform. Without options, rows are the records unchanged.

    It caches schemas of its registry, so each sink needs its own.

    Attributes:
        key: Decoding of the key.
        value: Decoding of the value.
        flatten: True to replace the value's column by columns of its fields.
        transform: Function that converts a DataFrame to another.
        transform_sql: The transform as a query of the table `batch`.
        registry: Schema registry.
    """

    key: Decode = attrs.field(factory=Decode)
    value: Decode = attrs.field(factory=Decode)
    flatten: bool = attrs.field(default=False, validator=boolean)
    transform: Transform | None = None
    transform_sql: str | None = attrs.field(default=None, validator=_check_sql)
    registry: Registry | None = None
    _codecs: Mapping[str, ColumnCodec] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.transform is not None and self.transform_sql is not None:
            raise ConfigError("transform_sql", self.transform_sql, "must not be set with transform")
        if self.flatten and self.value.format in ("bytes", "string"):
            raise ConfigError("flatten", True, f"needs a value with fields, and its format is {self.value.format!r}")
        object.__setattr__(self, "_codecs", self._build_codecs())

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Build from the `SHAPING_OPTIONS` among a sink's options; ignores others. Raises ConfigError."""
        registry = Registry(RegistryOptions.from_options(options["registry"])) if "registry" in options else None
        decodes = {
            column: Decode.from_options(column, options, has_registry=registry is not None) for column in COLUMNS
        }
        if registry is not None and not any(decode.framed for decode in decodes.values()):
            raise ConfigError("registry", "...", "must not be set unless a format is 'json', 'avro' or 'protobuf'")
        return cls(
            **decodes,
            flatten=options.get("flatten", False),
            transform=load_transform(options["transform"]) if "transform" in options else None,
            transform_sql=options.get("transform_sql"),
            registry=registry,
        )

    @property
    def is_plain(self) -> bool:
        return not self._codecs and not self.is_transformed

    @property
    def is_transformed(self) -> bool:
        """True if there is a transform. Otherwise each record becomes one row."""
        return self.transform is not None or self.transform_sql is not None

    def frame(self, spark: SparkSession, landing: Landing) -> DataFrame:
        """Return an attempt's rows. Raises ShapeError for wrong schemas, transform or SQL, and RegistryError."""
        return self.frames(spark, [landing])[0]

    def frames(self, spark: SparkSession, landings: Sequence[Landing]) -> list[DataFrame]:
        """Return several attempts' rows. All of one topic have the same columns, even if schemas change meanwhile."""
        plans = self._plans(landings)
        return [self._shaped(spark, landing, plans[landing.link.key.topic]) for landing in landings]

    def unreadable(self, spark: SparkSession, landing: Landing) -> Sequence[BadRecord]:
        """Return the records of an attempt that cannot be decoded, ordered by offset. For attempts that failed.

        All other records can be decoded. The transform is not checked. Raises RegistryError.
        """
        plans = self._plans([landing])[landing.link.key.topic]
        if not plans:
            return ()
        records = staged_columns(landing, ["offset", *plans])
        frame = staged_frame(spark, landing)
        found: dict[int, str] = {}
        for column, plan in plans.items():
            bad = _bad_records(column, getattr(self, column).format, plan, self._codecs[column], frame, records)
            found = {**bad, **found}
        return [BadRecord(offset, found[offset]) for offset in sorted(found)]

    def check(self, spark: SparkSession) -> None:
        """Check the options without any record: installed packages, given schemas, SQL.

        Does not look up schemas in a registry, since a new topic has none there, and does not call a transform in
        Python.

        Raises:
            HandlerError: A package is missing, or an option is wrong.
        """
        try:
            for decode in (self.key, self.value):
                _require_packages(decode)
            probes = {column: codec.probe() for column, codec in self._codecs.items()}
            if not probes and self.transform_sql is None:
                return
            empty = spark.createDataFrame([], KAFKA_COLUMNS)
            decoded = with_shape_errors("decoding", lambda: analyze(_decode(empty, probes)))
            if self.transform is None and all(codec.with_message is None for codec in self._codecs.values()):
                self._transform(spark, flatten_value(decoded) if self.flatten else decoded)
        except ShapeError as error:
            raise HandlerError(f"records cannot be shaped with these options: {error}") from error

    def _build_codecs(self) -> dict[str, ColumnCodec]:
        codecs = {}
        for column in COLUMNS:
            decode: Decode = getattr(self, column)
            if decode.framed and self.registry is None:
                raise ConfigError("registry", None, f"is required to decode the {column}")
            if codec := _codec(column, decode, self.registry if decode.framed else None):
                codecs[column] = codec
        return codecs

    def _plans(self, landings: Sequence[Landing]) -> dict[str, dict[str, Plan]]:
        """Make the plans by topic and column."""
        prefixes: dict[str, dict[str, dict[bytes, Prefix]]] = {}
        framed = [column for column, codec in self._codecs.items() if codec.with_message is not None]
        for landing in landings:
            of_topic = prefixes.setdefault(landing.link.key.topic, {column: {} for column in self._codecs})
            if not framed:
                continue
            records = staged_columns(landing, framed)
            for column in framed:
                survey = survey_column(self._codecs[column], records[column])
                if survey:
                    of_topic[column].update(survey.prefixes)
        return {
            topic: {column: codec.plan(topic, of_topic[column]) for column, codec in self._codecs.items()}
            for topic, of_topic in prefixes.items()
        }

    def _shaped(self, spark: SparkSession, landing: Landing, plans: Mapping[str, Plan]) -> DataFrame:
        frame = staged_frame(spark, landing)
        decoded = with_shape_errors("decoding", lambda: _decode(frame, plans))
        return self._transform(spark, flatten_value(decoded) if self.flatten else decoded)

    def _transform(self, spark: SparkSession, frame: DataFrame) -> DataFrame:
        if self.transform_sql is not None:
            return run_query(spark, frame, self.transform_sql)
        return frame if self.transform is None else apply_transform(frame, self.transform)


def _codec(column: str, decode: Decode, registry: Registry | None) -> ColumnCodec | None:
    schema = decode.schema
    common: dict[str, Any] = {"column": column, "registry": registry, "subject": decode.subject}
    if decode.format == "bytes":
        return None
    if decode.format == "string":
        return StringCodec()
    if registry is not None and schema is None:
        common["readers"] = ReaderSchemas(registry, SchemaKind[decode.format.upper()], decode.version)
    if decode.format == "json":
        return JsonCodec(ddl=cast("str | None", schema), **common)
    if decode.format == "avro":
        return AvroCodec(schema=cast("str | None", schema), **common)
    return ProtobufCodec(descriptors=cast("bytes | None", schema), message=decode.message, **common)


def _bad_records(
    column: str, kind: str, plan: Plan, codec: ColumnCodec, frame: DataFrame, records: pa.Table
) -> dict[int, str]:
    """Return the reason why a record's `column` cannot be decoded, by offset."""
    survey = survey_column(codec, records[column])
    offsets = records["offset"]
    bad = {}
    if survey:
        for row, reason in survey.rows_of({**survey.problems, **plan.unknown}):
            bad[offsets[row].as_py()] = f"{column}: {reason}"
    for offset, fault in plan.undecodable(frame, column, records).items():
        writer = f", written with schema {survey.prefix_of(offset, offsets).schema_id}" if survey else ""
        bad.setdefault(offset, f"{column}: it cannot be decoded as {kind}{writer}{fault and f': {fault}'}")
    return bad


def _decode(frame: DataFrame, plans: Mapping[str, Plan]) -> DataFrame:
    for column, plan in plans.items():
        frame = plan.decode(frame, column)
    return frame


def _require_packages(decode: Decode) -> None:
    if decode.format != "protobuf":
        return
    for name in ("google.protobuf", "grpc_tools") if decode.framed else ("google.protobuf",):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ShapeError(f"'protobuf' needs more packages ({error}): {install_command('protobuf')}") from error
