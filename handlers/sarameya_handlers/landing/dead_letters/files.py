"""Dead letters as Parquet files: the columns of Spark's Kafka source, and columns for the error.

    <directory>/<sink>-<topic>-<partition>-<first offset>-<digest>.parquet

A file holds the dead letters of one attempt to append a link. Its name has a digest of their origin and offsets. So the
same letters, written again, replace their own file, and no other: another owner of the partition may have rejected more
records, or fewer, and must not replace this owner's files. Readers of the directory (Spark, pyarrow, DuckDB) see only
complete files.

A rule that is easily broken:

- A file of dead letters replaces a file of the same letters, and no other. Test:
  `tests/handlers/landing/test_dead_letters.py::test_same_letters_replace_their_file_and_others_do_not`.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import trio

from sarameya import HandlerError, install_command
from sarameya_handlers.landing.dead_letters.letters import DeadLetter, DeadLetterError, DeadLetters
from sarameya_handlers.landing.files import is_refusal
from sarameya_handlers.landing.links import Link
from sarameya_handlers.landing.stores.options import StoreOptions
from sarameya_handlers.landing.stores.places import store_at

if TYPE_CHECKING:
    import pyarrow as pa

_LEFTOVER_AGE = 24 * 3600.0
"""Age in seconds after which an unfinished file counts as left by a killed process."""
_NAME_CHARACTERS = 60
"""Characters of the sink's and of the topic's name in a file's name, which is limited to 255. The digest makes it
unique."""


class FileDeadLetters(DeadLetters):
    """Dead letters in a directory, which is created if missing, or below a URL of an object store.

    Entering it raises HandlerError if a person must change something, such as a permission, and DeadLetterError if the
    cause may pass, such as a full disk.

    Args:
        directory: The directory, or a URL.
        store: How to reach an object store.

    Raises:
        ConfigError: The value is neither.
    """

    def __init__(self, directory: str | os.PathLike[str], *, store: StoreOptions | None = None) -> None:
        self._store = store_at(directory, store)

    @property
    def name(self) -> str:
        return f"directory {self._store.place}"

    async def __aenter__(self) -> Self:
        await trio.to_thread.run_sync(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def _open(self) -> None:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise HandlerError(f"dead letters as files need pyarrow: {install_command('spark')}") from error
        try:
            self._store.prepare([""])
            for name in self._store.unfinished(""):
                with suppress(OSError):  # it belongs to another user
                    stored = self._store.measure(name)
                    if stored is not None and stored.changed < time.time() - _LEFTOVER_AGE:
                        self._store.remove(name)
        except OSError as error:
            problem = f"cannot write dead letters to {self._store.place}: {error.strerror or error}"
            if is_refusal(error):
                raise HandlerError(f"{problem}; choose a directory that this user may write to") from error
            raise DeadLetterError(f"{problem}; check its disk, and start again") from error

    async def write(self, link: Link, letters: Sequence[DeadLetter]) -> None:
        if not letters:
            return
        try:
            work = partial(self._write, link, letters, time.time())
            # A hanging disk must not hold up a rebalance. A thread that still finishes writes a complete file.
            await trio.to_thread.run_sync(work, abandon_on_cancel=True)
        except OSError as error:
            problem = f"{len(letters)} dead letters cannot be written to {self._store.place}"
            raise DeadLetterError(f"{link}: {problem}: {error.strerror or error}") from error

    def _write(self, link: Link, letters: Sequence[DeadLetter], now: float) -> None:
        import pyarrow.parquet as pq

        ordered = sorted(letters, key=lambda letter: letter.offset)
        content = io.BytesIO()
        pq.write_table(_table(link, ordered, now), content, compression="snappy")
        self._store.put_over(file_name(link, ordered), content.getvalue(), durably=True)


def file_name(link: Link, letters: Sequence[DeadLetter]) -> str:
    """Return the name of a file: equal for the same records, whatever attempt they belong to."""
    key, origin = link.key, link.origin
    source = [key.sink, key.topic, str(key.partition), origin.group, origin.topic_id]
    offsets = [str(letter.offset) for letter in letters]
    digest = hashlib.sha256("\0".join([*source, *offsets]).encode()).hexdigest()[:32]
    sink, topic = (quote(name, safe="")[:_NAME_CHARACTERS] for name in (key.sink, key.topic))
    return f"{sink}-{topic}-{key.partition}-{letters[0].offset:020}-{digest}.parquet".lstrip("._")


def _table(link: Link, letters: Sequence[DeadLetter], now: float) -> pa.Table:
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
    stamp = pa.timestamp("us", tz="UTC")
    columns: dict[str, tuple[Any, list[Any]]] = {
        "key": (pa.binary(), [letter.key for letter in letters]),
        "value": (pa.binary(), [letter.value for letter in letters]),
        "topic": (pa.string(), [link.key.topic for _ in letters]),
        "partition": (pa.int32(), [link.key.partition for _ in letters]),
        "offset": (pa.int64(), [letter.offset for letter in letters]),
        "timestamp": (stamp, [None if letter.timestamp is None else letter.timestamp * 1000 for letter in letters]),
        "timestampType": (pa.int32(), [letter.timestamp_type for letter in letters]),
        "headers": (pa.list_(header), [_structs(letter) for letter in letters]),
        "error": (pa.string(), [letter.error.encode(errors="replace").decode() for letter in letters]),
        "sink": (pa.string(), [link.key.sink for _ in letters]),
        "group": (pa.string(), [link.origin.group for _ in letters]),
        "link": (pa.int64(), [link.number for _ in letters]),
        "attempt": (pa.string(), [link.attempt for _ in letters]),
        "written": (stamp, [int(now * 1_000_000) for _ in letters]),
    }
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in columns.items()})


def _structs(letter: DeadLetter) -> list[dict[str, Any]] | None:
    return [{"key": key, "value": value} for key, value in letter.headers] or None
