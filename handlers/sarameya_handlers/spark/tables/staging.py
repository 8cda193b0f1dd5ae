"""Staged records: files of this machine. A Spark on other machines reads them in an object store."""

from __future__ import annotations

import errno
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import attrs

from sarameya_handlers.landing.files import PROBE, TEMPORARY
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.options import StoreOptions
from sarameya_handlers.landing.stores.places import store_at
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.tables.file_visibility import check_reads, is_local, runs_here, spark_path
from sarameya_handlers.spark.tables.table import Leftover

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

_PROBES = 16
"""Number of files that Spark reads when staging opens. With enough cores each is one task, on several executors."""
_WHAT = "a staged file"
_NAME = re.compile(rf"[0-9a-f]{{32}}(-{PROBE}\d+)?\.parquet|{PROBE}[0-9a-f]{{32}}\.parquet|{re.escape(TEMPORARY)}.*")
"""Names of staged files. A user's directory may have others, which are left alone."""


def temporary_staging() -> Path:
    """Return this user's temporary directory for records that a Spark of this machine reads."""
    return Path(tempfile.gettempdir(), f"sarameya-staging-{os.getuid()}")


@attrs.frozen(slots=True)
class StagedFile:
    """Records of an attempt, in a Parquet file of this machine."""

    path: Path
    _url: Callable[[Path], str] = attrs.field(default=spark_path, eq=False, repr=False)

    def __str__(self) -> str:
        return str(self.path)

    def spark_url(self) -> str:
        """Return the file's URL for Spark. Blocking: the file is put into the shared store, if there is one.

        Raises:
            OSError: The store failed.
        """
        return self._url(self.path)


class Staging:
    """A directory of this machine for staged records. Readers of the table never see its files.

    A Spark on other machines reads them from the object store, if there is one; otherwise it must have mounted the
    directory under the same path.

    Args:
        directory: The directory, which `make` makes.
        store: The object store.
        folder: The directory in the store.
    """

    def __init__(self, directory: Path, store: Store | None = None, folder: str = "") -> None:
        self.directory = directory
        self._store = store
        self._folder = folder
        self._is_shared = False
        """True if Spark reads files from the store. Known after `open`."""
        self._shared: set[str] = set()
        """Names of files that are in the store, or may be."""

    @classmethod
    def at(cls, place: str | os.PathLike[str], folder: str = "", options: StoreOptions | None = None) -> Self:
        """Return the staging at a place that a user has named.

        Args:
            place: A directory, or a URL of an object store.
            folder: The table's directory there.
            options: How to reach an object store.

        Raises:
            ConfigError: The place is neither.
            HandlerError: The library for object stores is not installed.
        """
        store = store_at(place)
        if isinstance(store, LocalStore):
            return cls(store.root / folder)
        return cls(temporary_staging() / folder, store_at(place, options), folder)

    def __str__(self) -> str:
        if self._is_shared and self._store is not None:
            return f"{self._store.place}/{self._folder}".rstrip("/")
        return str(self.directory)

    def make(self) -> None:
        """Make the directory. Hide a temporary one from other users.

        Raises:
            OSError: It cannot be made, or is another user's.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        temporary = temporary_staging()
        if temporary not in (self.directory, *self.directory.parents):
            return
        status = temporary.lstat()
        if status.st_uid != os.getuid() or not S_ISDIR(status.st_mode):
            raise PermissionError(errno.EACCES, "it is not this user's directory", str(temporary))
        temporary.chmod(0o700)

    def open(self, spark: SparkSession | None) -> None:
        """Choose where Spark reads staged files, and check that it does: one job unless Spark is local. Blocking.

        Args:
            spark: The session; None checks nothing.

        Raises:
            HandlerError: Spark does not read the files.
            LandingError: The check failed for a reason that may pass.
        """
        if spark is None or is_local(spark):
            return
        self._is_shared = self._store is not None and not runs_here(spark)
        self._check(spark)

    def _check(self, spark: SparkSession) -> None:
        import pyarrow as pa

        rows = pa.table({"number": pa.array([1], pa.int32())})
        with ExitStack() as stack:
            names = (f"{PROBE}{uuid4().hex}" for _ in range(_PROBES))
            urls = (stack.enter_context(self.stage(name, rows)).spark_url() for name in names)
            check_reads(spark, urls, str(self), self._store if self._is_shared else None)

    @contextmanager
    def stage(self, name: str, records: pa.Table, *, is_final: bool = False) -> Iterator[StagedFile]:
        """Provide a file with these records inside a block. Afterwards it is removed, wherever it is.

        Args:
            name: The file's name, without its suffix. A new one each time: Spark caches facts about a file by its name.
                Without a leading underscore or dot, with which Spark would silently read nothing.
            records: The records.
            is_final: True if the file may become one of the table, by a move. It is compressed like one.

        Raises:
            OSError: The file cannot be written.
        """
        import pyarrow.parquet as pq

        path = self.directory / f"{name}.parquet"
        try:
            if is_final:
                pq.write_table(records, path, compression="snappy")
            else:
                # Written once and read once, right away: compression would not pay.
                pq.write_table(records, path, compression="none", use_dictionary=False, write_statistics=False)
            yield StagedFile(path, self._share if self._is_shared else spark_path)
        finally:
            path.unlink(missing_ok=True)
            if path.name in self._shared:
                self._remove_shared(path.name)

    def _share(self, path: Path) -> str:
        assert self._store is not None, "it is shared"
        name = self._name(path.name)
        if path.name not in self._shared:
            self._shared.add(path.name)
            self._store.copy_in(path, name)
        return self._store.spark_url(name)

    def _remove_shared(self, name: str) -> None:
        assert self._store is not None, "it is shared"
        self._shared.discard(name)
        try:
            self._store.remove(self._name(name))
        except OSError as error:
            logger.warning("cannot remove %s/%s, which a start in a day removes: %s", self, name, error)

    def _name(self, file: str) -> str:
        return f"{self._folder}/{file}".lstrip("/")

    def remove_old(self, before: float) -> None:
        """Remove files that killed members have left. Errors are ignored: another member may remove them, too.

        Args:
            before: Time of the last change, in seconds since 1970.
        """
        for path in self.directory.iterdir():
            with suppress(OSError):
                if _is_staged(path.name) and path.is_file() and path.stat().st_mtime < before:
                    logger.info("removing %s, which a flush that never ended has left", path)
                    path.unlink()
        if not self._is_shared or self._store is None:
            return
        with suppress(OSError):
            for name in [*self._store.names(self._folder)]:
                stored = self._store.measure(name) if _is_staged(name) else None
                if stored is not None and stored.changed < before:
                    logger.info("removing %s/%s, which a flush that never ended has left", self._store.place, name)
                    self._store.remove(name)

    def leftovers(self) -> Iterator[Leftover]:
        """Yield staged files, here and in the store. Flushes that run still need the young ones.

        Raises:
            OSError: The store failed.
        """
        for path in self.directory.glob("*.parquet"):
            if _is_staged(path.name) and (leftover := Leftover.at(path, _WHAT)) is not None:
                yield leftover
        if (store := self._store) is None:
            return
        for name in store.names(self._folder):
            if _is_staged(name) and (stored := store.measure(name)) is not None:
                full = f"{store.place}/{name}"
                yield Leftover(name=full, size_bytes=stored.size_bytes, changed=stored.changed, what=_WHAT)

    def remove(self, leftover: Leftover) -> bool:
        """Remove a leftover. Return False if it is none of these. Raises OSError if the storage fails."""
        if not _is_staged(leftover.name):
            return False
        if self._store is not None and leftover.name.startswith(f"{self._store.place}/{self._name('')}"):
            self._store.remove(leftover.name.removeprefix(f"{self._store.place}/"))
            return True
        path = Path(leftover.name)
        if path.parent != self.directory:
            return False
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        return True


def _is_staged(name: str) -> bool:
    return _NAME.fullmatch(name.rpartition("/")[2]) is not None
