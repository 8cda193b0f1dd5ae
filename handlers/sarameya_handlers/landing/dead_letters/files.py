"""Dead letters as Parquet files: the columns of Spark's Kafka source, and columns for the error.

    <directory>/<sink>-<topic>-<partition>-<first offset>-<digest>.parquet

A file holds the dead letters of one attempt to append a link. Its name has a digest of their origin and offsets. So the
same letters, written again, replace their own file, and no other: another owner of the partition may have rejected more
records, or fewer, and must not replace this owner's files. A file is written under a hidden name, synced, and renamed,
so readers of the directory (Spark, pyarrow, DuckDB) see only complete files.

A rule that is easily broken:

- A file of dead letters replaces a file of the same letters, and no other. Test:
  `tests/handlers/landing/test_dead_letters.py::test_same_letters_replace_themselves_and_others_do_not`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote
from uuid import uuid4

import trio

from sarameya import ConfigError, HandlerError, install_command
from sarameya_handlers.landing.dead_letters.letters import DeadLetter, DeadLetterError, DeadLetters
from sarameya_handlers.landing.files import is_refusal, sync
from sarameya_handlers.landing.links import Link

if TYPE_CHECKING:
    import pyarrow as pa

_TEMPORARY = ".writing-"
_LEFTOVER_AGE = 24 * 3600.0
"""Age in seconds after which an unfinished file counts as left by a killed process."""
_NAME_CHARACTERS = 60
"""Characters of the sink's and of the topic's name in a file's name, which is limited to 255. The digest makes it
unique."""


class FileDeadLetters(DeadLetters):
    """Dead letters in a directory of a local or mounted file system, which is created if missing.

    Entering it raises HandlerError if a person must change something, such as a permission, and DeadLetterError if the
    cause may pass, such as a full disk.

    Raises:
        ConfigError: The value cannot be a directory's name.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        text = os.fspath(directory)
        if not isinstance(text, str) or not text or "://" in text:
            raise ConfigError("path", directory, "must be a directory of a local or mounted file system")
        self._directory = Path(text).absolute()

    @property
    def name(self) -> str:
        return f"directory {self._directory}"

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
            self._directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._directory, prefix=_TEMPORARY):
                pass
            for path in self._directory.glob(f"{_TEMPORARY}*"):
                with suppress(OSError):  # it belongs to another user, or another process removes it
                    if path.stat().st_mtime < time.time() - _LEFTOVER_AGE:
                        path.unlink()
        except OSError as error:
            problem = f"cannot write dead letters to {self._directory}: {error.strerror or error}"
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
            raise DeadLetterError(
                f"{link}: {len(letters)} dead letters cannot be written to {self._directory}: {error.strerror or error}"
            ) from error

    def _write(self, link: Link, letters: Sequence[DeadLetter], now: float) -> None:
        import pyarrow.parquet as pq

        ordered = sorted(letters, key=lambda letter: letter.offset)
        temporary = self._directory / f"{_TEMPORARY}{uuid4().hex}"
        try:
            with temporary.open("xb") as file:
                pq.write_table(_table(link, ordered, now), file, compression="snappy")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._directory / file_name(link, ordered))
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        sync(self._directory)


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
