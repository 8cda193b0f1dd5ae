"""Makes few files of many small ones in a landed directory, while others land there. Blocking; pyarrow, no Spark.

Which files become one is decided first (pure), then they are written, put as a compaction, and moved to their places.
Readers through `read_landing` see each record once at any moment; one that has begun may meet a file that has moved,
and has to begin anew. Readers of the plain directory are to keep away meanwhile: they miss rows for a moment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from sarameya_handlers.landing.compactions import Compaction, attempt_of
from sarameya_handlers.landing.data_files import DataFiles
from sarameya_handlers.landing.files import UnansweredError
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


def compact(
    root: Path,
    file_bytes: int,
    *,
    check: Callable[[], None] = lambda: None,
    written: Callable[[int, int], None] = lambda rows, of: None,
) -> Compacted:
    """Have files of about `file_bytes` below `root`, a directory that a ParquetTable lands in. `check` raises when it
    is no longer wanted, and is let through; `written` is told of so many rows of how many. Raises OSError."""
    files = DataFiles(root)
    last = files.compactions.last()  # before: one that is put meanwhile, and not published, is not gone on from
    files.publish_all()
    # Only what is in its place: a link's file that comes to it after it was replaced would be there beside its rows.
    places = {file: place for file, place in files.live() if place == root / file.name}
    small = plan(places, file_bytes)
    if not small:
        return Compacted(None)
    attempt = attempt_of(_number(last) + 1)
    is_known = True
    opened = {file: partial(_open, places[file], root / file.name) for group in small for file in group}
    try:
        schemas = {file: _schema_of(opened[file], check) for file in opened}
        groups = [alike for group in small for alike in _alike(group, schemas)]
        if not groups:
            return Compacted(None)
        rows, of = 0, sum(file.rows for group in groups for file in group)
        for number, group in enumerate(groups):
            check()
            written(rows, of)
            where = files.directory(attempt) / Path(group[0].name).parent
            where.mkdir(parents=True, exist_ok=True)
            schema = _unified([schemas[file] for file in group])
            _write([opened[file] for file in group], schema, where / f"{number:06d}.parquet", check)
            rows += sum(file.rows for file in group)
        written(rows, of)
        new = files.settle(attempt, lambda number: f"{attempt}-{number}.parquet", _rows)
        _check_rows(new, groups)
        replaced = tuple(file.name for group in groups for file in group)
        compaction = Compaction(_number(last) + 1, attempt, replaced, new)
        check()
        for file in new:
            (files.directory(attempt) / file.name).stat()  # as long as it may have slept: was it swept away?
        if not files.compactions.put(compaction):
            return Compacted(None, was_first=False)
        return Compacted(compaction)
    except FileNotFoundError:
        if _number(files.compactions.last()) == _number(last):
            raise
        return Compacted(None, was_first=False)  # another one has replaced what was to be read
    except UnansweredError:
        is_known = False  # put it may be, now or later: who sees it finishes it
        raise
    finally:
        if is_known:
            _finish(files, attempt, _number(last) + 1)


def _finish(files: DataFiles, attempt: str, number: int) -> None:
    """In place, if it was put, whatever was told of that; else gone."""
    put = files.compactions.get(number)
    if put is not None and put.attempt == attempt:
        files.publish_compaction(put)
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


def _schema_of(opened: Callable[[], Any], check: Callable[[], None]) -> Any:
    check()
    with opened() as file:
        return file.schema_arrow


def _alike(group: Sequence[DataFile], schemas: Mapping[DataFile, Any]) -> list[list[DataFile]]:
    """Of these files, those that can become one: some may lack columns, those that they share have one type.

    A struct that has got fields is another type: its files stay apart, since a reader knows better what they lack.
    """
    found: list[tuple[dict[str, Any], list[DataFile]]] = []
    for file in group:
        columns = {field.name.lower(): (field.name, _loose(field.type)) for field in schemas[file]}
        for there, files in found:
            if all(there.get(name, column) == column for name, column in columns.items()):
                there.update(columns)
                files.append(file)
                break
        else:
            found.append((columns, [file]))
    return [files for _, files in found if len(files) > 1]


def _loose(kind: Any) -> Any:
    """The type without what it says of nulls within, which is one for all files then."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, _loose(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_loose(kind.key_type), _loose(kind.item_type))
    return pa.list_(_loose(kind.value_type)) if types.is_list(kind) else kind


def _unified(schemas: Sequence[Any]) -> Any:
    """Every column that one of these has; those that another one lacks may be null."""
    import pyarrow as pa

    unified = pa.unify_schemas(schemas)
    if all(schema.equals(unified, check_metadata=True) for schema in schemas):
        return unified
    lacking = {field.name for field in unified if any(field.name not in schema.names for schema in schemas)}
    fields = [field.with_nullable(True) if field.name in lacking else field for field in unified]
    # What is said beside the columns is one file's, Spark's own list of them among it: Spark would see no others.
    return pa.schema(fields)


def _write(sources: Sequence[Callable[[], Any]], schema: Any, into: Path, check: Callable[[], None]) -> None:
    """The rows of these files, in order, in one: a column that some lack is null there."""
    import pyarrow.parquet as pq

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
