"""Helpers of the tests of shaping: staged batches of records, Protobuf descriptors and messages, columns of frames."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from sarameya import TopicPartition
from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.spark.shaping.formats.protobuf_columns import message_class
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing

START = 1_700_000_000_000_000
"""The timestamp of the first record, in microseconds; each later record's is one microsecond later."""


@attrs.frozen
class Stage:
    """A directory for staged batches."""

    directory: Path

    def landing(
        self,
        values: Sequence[bytes | None],
        *,
        keys: Sequence[bytes | None] | None = None,
        timestamps: Sequence[int] | None = None,
        topic: str = "orders",
        first: int = 100,
    ) -> Landing:
        """Stage records with these values, at offsets from `first` on. `timestamps` are in milliseconds."""
        count = len(values)
        micros = [START + n for n in range(count)] if timestamps is None else [1000 * t for t in timestamps]
        columns: dict[str, Any] = {
            "key": keys or [None] * count,
            "value": values,
            "topic": [topic] * count,
            "partition": [0] * count,
            "offset": range(first, first + count),
            "timestamp": micros,
            "timestampType": [0] * count,
            "headers": [[]] * count,
        }
        schema = kafka_schema()
        return self.staged(
            pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema), topic, first
        )

    def staged(self, records: pa.Table, topic: str, first: int) -> Landing:
        """Stage these records, and return them with the link of their batch."""
        attempt = uuid.uuid4().hex
        file = self.directory / f"{attempt}.parquet"
        pq.write_table(records, file, compression="none", use_dictionary=False, write_statistics=False)
        link = Link(
            key=ChainKey("sink", *TopicPartition(topic, 0)),
            number=1,
            from_offset=first,
            to_offset=first + records.num_rows,
            attempt=attempt,
            origin=Origin(group="g"),
        )
        return Landing(link=link, staged=StagedFile(file), records=records.num_rows)


def descriptors(directory: Path, **files: str) -> bytes:
    """Compile .proto files to a descriptor set that includes their imports.

    Args:
        directory: where the files are written and compiled.
        files: the text of each file, by its name without the suffix.
    """
    for name, text in files.items():
        (directory / f"{name}.proto").write_text(text)
    output = directory / "made.desc"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{directory}", "--include_imports"]
    names = [f"{name}.proto" for name in files]
    subprocess.run([*command, f"--descriptor_set_out={output}", *names], check=True, cwd=directory)
    return output.read_bytes()


def message(descriptor_set: bytes, name: str, /, **fields: Any) -> Any:
    return message_class(descriptor_set, name)(**fields)


def column(frame: Any, name: str = "value") -> list[Any]:
    """Return the values of a column, ordered by offset if the frame has one; rows as dicts."""
    rows = (
        frame.select(name).collect()
        if "offset" not in frame.columns
        else frame.orderBy("offset").select(name).collect()
    )
    return [row[0].asDict(recursive=True) if hasattr(row[0], "asDict") else row[0] for row in rows]
