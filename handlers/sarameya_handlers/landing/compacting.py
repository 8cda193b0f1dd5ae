"""Makes few files of many small ones in a landed directory, while others land there. Blocking; pyarrow, no Spark.

Which files become one is decided first (pure), then they are written, put as a compaction, and moved to their places.
Readers through `read_landing` see each record once at any moment; one that has begun may meet a file that has moved,
and has to begin anew. Readers of the plain directory are to keep away meanwhile: they miss rows for a moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs

from sarameya_handlers.landing.compactions import Compaction
from sarameya_handlers.landing.data_files import DataFiles
from sarameya_handlers.landing.manifests import DataFile

SMALL = 0.75
"""Of the wanted size: a file that has so much stays as it is."""


@attrs.frozen(slots=True)
class Compacted:
    """What has become of it. `compaction` is None where nothing was to be done, or where another one was first."""

    compaction: Compaction | None
    was_first: bool = True


def plan(files: Iterable[DataFile], file_bytes: int) -> list[list[DataFile]]:
    """Which files become one: small ones of the same directory, in the order of their names, `file_bytes` together."""
    small: dict[Path, list[DataFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.name):
        if file.size < SMALL * file_bytes:
            small[Path(file.name).parent].append(file)
    groups = [group for those in small.values() for group in _packed(those, file_bytes)]
    return [group for group in groups if len(group) > 1]


def _packed(files: Iterable[DataFile], file_bytes: int) -> list[list[DataFile]]:
    groups: list[list[DataFile]] = []
    size = 0
    for file in files:
        if not groups or size + file.size > file_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def compact(root: Path, file_bytes: int, *, check: Callable[[], None] = lambda: None) -> Compacted:
    """Have files of about `file_bytes` below `root`, a directory that a ParquetTable lands in. `check` raises when it
    is no longer wanted, and is let through. Raises OSError."""
    files = DataFiles(root)
    files.publish_all()
    last = files.compactions.last()
    places = dict(files.live())
    groups = plan(places, file_bytes)
    if not groups:
        return Compacted(None)
    attempt = uuid4().hex
    try:
        for number, group in enumerate(groups):
            check()
            where = files.directory(attempt) / Path(group[0].name).parent
            where.mkdir(parents=True, exist_ok=True)
            sources = [partial(_open, places[file], root / file.name) for file in group]
            _write(sources, where / f"{number:06d}.parquet", check)
        written = files.settle(attempt, lambda number: f"compacted-{attempt}-{number}.parquet", _rows)
        _check_rows(written, groups)
        replaced = tuple(file.name for group in groups for file in group)
        compaction = Compaction(_number(last) + 1, attempt, replaced, written)
        check()
        if not files.compactions.put(compaction):
            return Compacted(None, was_first=False)
        return Compacted(compaction)
    except FileNotFoundError:
        if _number(files.compactions.last()) == _number(last):
            raise
        return Compacted(None, was_first=False)  # another one has replaced what was to be read
    finally:
        _finish(files, attempt)


def _finish(files: DataFiles, attempt: str) -> None:
    """In place, if it was put, whatever was told of that; else gone."""
    last = files.compactions.last()
    if last is not None and last.attempt == attempt:
        files.publish_compaction(last)
    else:
        files.forget(attempt)


def _number(compaction: Compaction | None) -> int:
    return compaction.number if compaction else 0


def _open(place: Path, published: Path) -> Any:
    """A file that was in one place when it was looked for, and may have been published since."""
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(place)
    except FileNotFoundError:
        return pq.ParquetFile(published)


def _check_rows(written: Sequence[DataFile], groups: Sequence[Sequence[DataFile]]) -> None:
    rows, before = sum(file.rows for file in written), sum(file.rows for group in groups for file in group)
    assert rows == before, f"{rows} rows were written of {before}"


def _write(sources: Sequence[Callable[[], Any]], into: Path, check: Callable[[], None]) -> None:
    """The rows of these files, in order, in one: a column that some lack is null there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schemas = []
    for opened in sources:
        with opened() as file:
            schemas.append(file.schema_arrow)
    schema = pa.unify_schemas(schemas)
    with pq.ParquetWriter(into, schema, compression="zstd") as writer:
        for opened in sources:
            with opened() as file:
                for batch in file.iter_batches():
                    check()
                    writer.write_batch(_widened(batch, schema))


def _widened(batch: Any, schema: Any) -> Any:
    import pyarrow as pa

    columns = [
        batch.column(field.name) if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)


def _rows(file: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(file).num_rows)
