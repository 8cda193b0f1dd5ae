"""Merges the small files of a landed directory while members land in it. Blocking; pyarrow, no Spark.

Three steps: plan which files become one (pure), write the merged files, put a compaction and move files to their
places. Readers through `read_landing` see each record once at any moment; a reader that has listed files may find one
moved, and has to list them again. Readers of the plain directory miss rows for a moment, so they should not read
meanwhile.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import PurePosixPath

import attrs

from sarameya import ConfigError, HandlerError
from sarameya_handlers.landing.directory.compaction_records import Compaction, attempt_of
from sarameya_handlers.landing.directory.data_files import DataFiles, directory_of
from sarameya_handlers.landing.directory.manifests import DataFile
from sarameya_handlers.landing.directory.parquet_merge import (
    FileSchema,
    OpenFile,
    can_merge,
    count_rows,
    merged,
    open_file,
    schema_of,
    write,
)
from sarameya_handlers.landing.errors import UnansweredError
from sarameya_handlers.landing.stores.store import Store

SMALL = 0.75
"""Share of the wanted size. A file of at least this size is not merged."""


@attrs.frozen(slots=True)
class Compacted:
    """Result of a compaction."""

    compaction: Compaction | None
    """None if there was nothing to merge, or another process put a compaction first."""
    was_first: bool = True
    refused: Mapping[str, int] = attrs.field(factory=dict)
    """Number of small files that cannot be rewritten exactly, by the reason."""


def small_files(files: Iterable[DataFile], file_bytes: int) -> list[list[DataFile]]:
    """Return the small files of each directory that has several, in the order of their names."""
    small: dict[PurePosixPath, list[DataFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.name):
        if file.size < SMALL * file_bytes:
            small[PurePosixPath(file.name).parent].append(file)
    return [group for group in small.values() if len(group) > 1]


def plan(
    small: Iterable[Sequence[DataFile]], file_bytes: int, schemas: Mapping[DataFile, FileSchema]
) -> list[list[DataFile]]:
    """Return groups of small files to merge: of one directory, with compatible schemas, of `file_bytes` in all."""
    alike = [mergeable for files in small for mergeable in _alike(files, schemas)]
    groups = [group for files in alike for group in _packed(files, file_bytes)]
    return [group for group in groups if len(group) > 1]


def _alike(files: Iterable[DataFile], schemas: Mapping[DataFile, FileSchema]) -> list[list[DataFile]]:
    """Partition files into sets in which any two can be merged; drop refused ones. There are few schemas."""
    found: list[tuple[list[FileSchema], list[DataFile]]] = []
    for file in files:
        schema = schemas[file]
        if schema.refusal:
            continue
        for known, members in found:
            if schema in known:
                members.append(file)
                break
            if all(can_merge(schema, other) for other in known):
                known.append(schema)
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
    store: Store,
    file_bytes: int,
    *,
    check: Callable[[], None] = lambda: None,
    written: Callable[[int, int], None] = lambda rows, of: None,
) -> Compacted:
    """Merge small files of a landed directory into files of about `file_bytes`.

    Args:
        store: The directory in which a ParquetTable lands.
        file_bytes: Wanted size of a file.
        check: Called often. An exception from it ends the compaction, and propagates.
        written: Called with the number of rows written so far, and of all rows to write.

    Raises:
        ConfigError: The store does not move files of this size.
        OSError: A file cannot be read or written.
    """
    if store.max_file_bytes is not None and file_bytes > store.max_file_bytes:
        raise ConfigError("file_size", file_bytes, f"must be at most {store.max_file_bytes} bytes in an object store")
    files = DataFiles(store)
    # Read before `publish_all`: a compaction that is put in between is not published, so nothing may build on it.
    last = files.compactions.last()
    files.publish_all()
    # Only files in their places: a link's file published after it was replaced would repeat its rows.
    small = small_files([file for file, name in files.live() if name == file.name], file_bytes)
    if not small:
        return Compacted(None)
    attempt = attempt_of(_number(last) + 1)
    is_known = True
    opened = {file: partial(open_file, store, file.name) for group in small for file in group}
    try:
        schemas = _read_schemas(opened, check)
        refused = Counter(schema.refusal for schema in schemas.values() if schema.refusal)
        groups = plan(small, file_bytes, schemas)
        if not groups:
            return Compacted(None, refused=refused)
        _write_groups(store, directory_of(attempt), groups, opened, schemas, check, written)
        new = files.settle(attempt, lambda number: f"{attempt}-{number}.parquet", partial(count_rows, store))
        _check_rows(new, groups)
        replaced = tuple(file.name for group in groups for file in group)
        compaction = Compaction(_number(last) + 1, attempt, replaced, new)
        check()
        if not files.compactions.put(compaction):
            return Compacted(None, was_first=False)
        return Compacted(compaction, refused=refused)
    except FileNotFoundError:
        if _number(files.compactions.last()) == _number(last):
            raise
        return Compacted(None, was_first=False)  # another compaction has replaced a file that we were reading
    except UnansweredError:
        is_known = False  # the compaction may exist, now or later: whoever sees it publishes it
        raise
    finally:
        if is_known:
            _finish(files, attempt, _number(last) + 1)


def _finish(files: DataFiles, attempt: str, number: int) -> None:
    """Publish the compaction if the table has it, whatever the put returned; otherwise remove its files."""
    put = files.compactions.get(number)
    if put is not None and put.attempt == attempt:
        files.publish_compaction(put)
    else:
        files.forget(attempt)


def _number(compaction: Compaction | None) -> int:
    return compaction.number if compaction else 0


def _check_rows(written: Sequence[DataFile], groups: Sequence[Sequence[DataFile]]) -> None:
    rows, before = sum(file.rows for file in written), sum(file.rows for group in groups for file in group)
    if rows != before:
        raise HandlerError(f"the compaction has written {rows} rows of {before}, so nothing is replaced; report this")


def _read_schemas(opened: Mapping[DataFile, OpenFile], check: Callable[[], None]) -> dict[DataFile, FileSchema]:
    """Read the schema of each file. Files with equal schemas share one object."""
    known: dict[tuple[object, ...], FileSchema] = {}
    found: dict[DataFile, FileSchema] = {}
    for file, source in opened.items():
        check()
        found[file] = schema_of(source, known)
    return found


def _write_groups(
    store: Store,
    into: str,
    groups: Sequence[Sequence[DataFile]],
    opened: Mapping[DataFile, OpenFile],
    schemas: Mapping[DataFile, FileSchema],
    check: Callable[[], None],
    written: Callable[[int, int], None],
) -> None:
    """Write one file for each group, in subdirectories named as the table's."""
    rows, of = 0, sum(file.rows for group in groups for file in group)
    for number, group in enumerate(groups):
        check()
        written(rows, of)
        schema = merged(list({id(schemas[file]): schemas[file] for file in group}.values()))
        name = PurePosixPath(into, PurePosixPath(group[0].name).with_name(f"{number:06d}.parquet"))
        with store.writing(str(name)) as path:
            write([opened[file] for file in group], schema, path, check)
        rows += sum(file.rows for file in group)
    written(rows, of)
