"""Makes few files of many small ones in a landed directory, while others land there. Blocking; pyarrow, no Spark.

Which files become one is decided first (pure), then they are written, put as a compaction, and moved to their places.
Readers through `read_landing` see each record once at any moment; one that has begun may meet a file that has moved,
and has to begin anew. Readers of the plain directory are to keep away meanwhile: they miss rows for a moment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from sarameya_handlers.landing.compactions import Compaction, attempt_of
from sarameya_handlers.landing.data_files import DataFiles
from sarameya_handlers.landing.files import UnansweredError
from sarameya_handlers.landing.manifests import DataFile
from sarameya_handlers.landing.parquet_merge import FileSchema, Open, can_merge, count_rows, merged, schema_of, write

SMALL = 0.75
"""Of the wanted size: a file that has so much stays as it is."""


@attrs.frozen(slots=True)
class Compacted:
    """Result of a compaction. `compaction` is None if there was nothing to do, or another one was first."""

    compaction: Compaction | None
    was_first: bool = True
    refused: Mapping[str, int] = attrs.field(factory=dict)
    """How many small files stay as they are, by the reason why they cannot be written anew exactly."""


def small_files(files: Iterable[DataFile], file_bytes: int) -> list[list[DataFile]]:
    """Return the small files of each directory that has several, in the order of their names."""
    small: dict[Path, list[DataFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.name):
        if file.size < SMALL * file_bytes:
            small[Path(file.name).parent].append(file)
    return [those for those in small.values() if len(those) > 1]


def plan(
    small: Iterable[Sequence[DataFile]], file_bytes: int, schemas: Mapping[DataFile, FileSchema]
) -> list[list[DataFile]]:
    """Return which small files become one: of one directory, alike in their schemas, `file_bytes` together."""
    alike = [files for those in small for files in _alike(those, schemas)]
    groups = [group for files in alike for group in _packed(files, file_bytes)]
    return [group for group in groups if len(group) > 1]


def _alike(files: Iterable[DataFile], schemas: Mapping[DataFile, FileSchema]) -> list[list[DataFile]]:
    """Sort files that are not refused into sets of which any two can become one. There are few schemas."""
    found: list[tuple[list[FileSchema], list[DataFile]]] = []
    for file in files:
        schema = schemas[file]
        if schema.refusal:
            continue
        for those, members in found:
            if schema in those:
                members.append(file)
                break
            if all(can_merge(schema, other) for other in those):
                those.append(schema)
                members.append(file)
                break
        else:
            found.append(([schema], [file]))
    return [members for _, members in found]


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
    small = small_files(places, file_bytes)
    if not small:
        return Compacted(None)
    attempt = attempt_of(_number(last) + 1)
    is_known = True
    opened = {file: partial(_open, places[file], root / file.name) for group in small for file in group}
    try:
        schemas = _read_schemas(opened, check)
        refused = Counter(schema.refusal for schema in schemas.values() if schema.refusal)
        groups = plan(small, file_bytes, schemas)
        if not groups:
            return Compacted(None, refused=refused)
        _write_groups(files.directory(attempt), groups, opened, schemas, check, written)
        new = files.settle(attempt, lambda number: f"{attempt}-{number}.parquet", count_rows)
        _check_rows(new, groups)
        replaced = tuple(file.name for group in groups for file in group)
        compaction = Compaction(_number(last) + 1, attempt, replaced, new)
        check()
        for file in new:
            (files.directory(attempt) / file.name).stat()  # as long as it may have slept: was it swept away?
        if not files.compactions.put(compaction):
            return Compacted(None, was_first=False)
        return Compacted(compaction, refused=refused)
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


def _read_schemas(opened: Mapping[DataFile, Open], check: Callable[[], None]) -> dict[DataFile, FileSchema]:
    """Read the schema of each file; of files that have the same one it is one object."""
    known: dict[tuple[object, ...], FileSchema] = {}
    found: dict[DataFile, FileSchema] = {}
    for file, source in opened.items():
        check()
        found[file] = schema_of(source, known)
    return found


def _write_groups(
    into: Path,
    groups: Sequence[Sequence[DataFile]],
    opened: Mapping[DataFile, Open],
    schemas: Mapping[DataFile, FileSchema],
    check: Callable[[], None],
    written: Callable[[int, int], None],
) -> None:
    """Write a file for each group, below directories as the table's are."""
    rows, of = 0, sum(file.rows for group in groups for file in group)
    for number, group in enumerate(groups):
        check()
        written(rows, of)
        where = into / Path(group[0].name).parent
        where.mkdir(parents=True, exist_ok=True)
        schema = merged(list({id(schemas[file]): schemas[file] for file in group}.values()))
        write([opened[file] for file in group], schema, where / f"{number:06d}.parquet", check)
        rows += sum(file.rows for file in group)
    written(rows, of)
