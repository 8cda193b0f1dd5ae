"""Staged records: files of this machine. A Spark on other machines reads them in an object store."""

from __future__ import annotations

import errno
import logging
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import attrs

from sarameya import ConfigError, HandlerError
from sarameya_handlers.landing.directory.manifests import HIDDEN
from sarameya_handlers.landing.files import PROBE, TEMPORARY
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.options import StoreOptions
from sarameya_handlers.landing.stores.places import store_at
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.errors import directory_error
from sarameya_handlers.spark.tables.file_visibility import check_reads, is_local, runs_here, spark_path
from sarameya_handlers.spark.tables.table import Leftover

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

logger = logging.getLogger("sarameya.spark")

STAGING = f"{HIDDEN}/staging"
"""Directory of staged files below a table's root, and below a URL that a user names."""
_PROBES = 16
"""Number of files that Spark reads when staging opens. With enough cores each is one task, on several executors."""
_DESCRIPTION = "a staged file"
_NAME = re.compile(rf"[0-9a-f]{{32}}(-{PROBE}\d+)?\.parquet|{PROBE}[0-9a-f]{{32}}\.parquet|{re.escape(TEMPORARY)}.*")
"""Names of staged files. A user's directory may have others, which are left alone."""


def temporary_staging() -> Path:
    """Return this user's temporary directory for records that a Spark of this machine reads."""
    return Path(tempfile.gettempdir(), f"sarameya-staging-{os.getuid()}")


@attrs.define(eq=False)
class StagedFile:
    """Records of an attempt, in a Parquet file of this machine, and in a store once Spark has to read it there."""

    path: Path
    _store: Store | None = None
    _key: str = ""
    """Name in the store."""
    _may_be_put: bool = attrs.field(default=False, init=False)
    _is_put: bool = attrs.field(default=False, init=False)

    def __str__(self) -> str:
        return str(self.path) if self._store is None else f"{self._store.place}/{self._key}"

    def spark_url(self) -> str:
        """Return the file's URL for Spark. Blocking: the file is put into the store first, if there is one.

        Raises:
            OSError: The store failed.
        """
        if self._store is None:
            return spark_path(self.path)
        if not self._is_put:
            self._may_be_put = True
            self._store.copy_in(self.path, self._key)
            self._is_put = True
        return self._store.spark_url(self._key)

    def remove(self) -> None:
        """Remove the file, wherever it is. A store's failure is only logged. Raises OSError if the disk fails."""
        try:
            if self._store is not None and self._may_be_put:
                self._store.remove(self._key)
        except OSError as error:
            logger.warning("cannot remove %s: a start of the sink in a day removes it: %s", self, error)
        finally:
            self.path.unlink(missing_ok=True)


class Staging:
    """A directory of this machine for staged records. Readers of the table never see its files.

    A Spark on other machines reads them from the object store, if there is one; otherwise it must have mounted the
    directory under the same path.

    Args:
        directory: The directory, which `make` makes.
        store: The object store.
        folder: The directory in the store. Only Sarameya puts files there.
        is_named: True if a user has named the store. Then each Spark that does not run in this process reads from it.
    """

    def __init__(
        self, directory: Path, store: Store | None = None, folder: str = "", *, is_named: bool = False
    ) -> None:
        self.directory = directory
        self._is_temporary = False
        self._store = store
        self._folder = folder
        self._is_named = is_named
        self._reads_from_store = False
        """True if Spark reads files from the store. Known after `open`."""

    @classmethod
    def temporary(cls, name: str, store: Store | None = None, folder: str = "", *, is_named: bool = False) -> Self:
        """Return the staging in this user's temporary directory. See the class for the arguments.

        Raises:
            OSError: There is no temporary directory that this process can write to.
        """
        staging = cls(temporary_staging() / name, store, folder, is_named=is_named)
        staging._is_temporary = True
        return staging

    @classmethod
    def at(cls, place: str | os.PathLike[str], folder: str = "", options: StoreOptions | None = None) -> Self:
        """Return the staging at a place that a user has named.

        Args:
            place: A directory, or a URL of an object store.
            folder: The table's directory there.
            options: How to reach an object store. Not used for a directory.

        Raises:
            ConfigError: The place is neither.
            HandlerError: The library for object stores is not installed.
        """
        is_path = "://" not in os.fspath(place) or os.fspath(place).startswith("file://")
        try:
            store = store_at(place, None if is_path else options)
        except ConfigError as error:
            allowed = "must be a directory, or a URL of an object store: s3://bucket/staging"
            raise ConfigError("staging", place, allowed) from error
        if isinstance(store, LocalStore):
            return cls(store.root / folder)
        # Hidden from readers, if the place is a table's: their names begin with an underscore.
        return cls.temporary(folder, store, f"{STAGING}/{folder}".rstrip("/"), is_named=True)

    def __str__(self) -> str:
        if self._reads_from_store and self._store is not None:
            return f"{self._store.place}/{self._folder}"
        return str(self.directory)

    def make(self) -> None:
        """Make the directory. Hide a temporary one from other users.

        Raises:
            OSError: It cannot be made, or is another user's.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self._is_temporary:  # then a full /tmp is none of our business
            return
        temporary = temporary_staging()
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
        self._reads_from_store = False
        if spark is None or is_local(spark):
            return
        if self._store is None or (runs_here(spark) and not self._is_named):
            try:
                self._check(spark)
            except HandlerError:  # a server at this address may still be behind a tunnel, or another user's
                if self._store is None:
                    raise
            else:
                return
        self._reads_from_store = True
        self._check(spark)

    def _check(self, spark: SparkSession) -> None:
        import pyarrow as pa

        rows = pa.table({"number": pa.array([1], pa.int32())})
        store = self._store if self._reads_from_store else None
        with ExitStack() as stack:
            try:
                names = [f"{PROBE}{uuid4().hex}" for _ in range(_PROBES if store is None else 1)]
                urls = [stack.enter_context(self.stage(name, rows)).spark_url() for name in names]
            except OSError as error:
                remedy = "give another directory (staging)"
                if store is not None:
                    remedy = "check the URL, the credentials of this process, and their permissions"
                raise directory_error(
                    f"cannot stage in {self}", error, remedy, "disk" if store is None else "store"
                ) from error
            check_reads(spark, urls, str(self), store)

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

        if self._is_temporary:
            self.make()  # again: systems remove old files and directories there
        path = self.directory / f"{name}.parquet"
        store = self._store if self._reads_from_store else None
        staged = StagedFile(path, store, f"{self._folder}/{path.name}")
        try:
            if is_final:
                pq.write_table(records, path, compression="snappy")
            else:
                # Written once and read once, right away: compression would not pay.
                pq.write_table(records, path, compression="none", use_dictionary=False, write_statistics=False)
            yield staged
        finally:
            staged.remove()

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
        if not self._reads_from_store:
            return
        with suppress(OSError):
            for leftover in self._in_store():
                if leftover.changed < before:
                    logger.info("removing %s, which a flush that never ended has left", leftover.name)
                    self.remove(leftover)

    def leftovers(self) -> Iterator[Leftover]:
        """Yield staged files, here and in the store. Flushes that run still need the young ones.

        Raises:
            HandlerError: The store cannot be listed.
        """
        for path in self.directory.glob("*.parquet"):
            if _is_staged(path.name) and (leftover := Leftover.at(path, _DESCRIPTION)) is not None:
                yield leftover
        try:
            yield from self._in_store()
        except OSError as error:
            assert self._store is not None, "it was listed"
            raise HandlerError(
                f"staged files in {self._store.place}/{self._folder} cannot be listed ({error}): give this process "
                "credentials that may list them"
            ) from error

    def _in_store(self) -> Iterator[Leftover]:
        if (store := self._store) is None:
            return
        for file in store.entries(self._folder):
            name = f"{self._folder}/{file}"
            if _is_staged(file) and (stored := store.measure(name)) is not None:
                full = f"{store.place}/{name}"
                yield Leftover(name=full, size_bytes=stored.size_bytes, changed=stored.changed, what=_DESCRIPTION)

    def remove(self, leftover: Leftover) -> bool:
        """Remove a leftover. Return False if it is none of these. Raises OSError if the storage fails."""
        directory, _, name = leftover.name.rpartition("/")
        if not _is_staged(name):
            return False
        if self._store is not None and directory == f"{self._store.place}/{self._folder}":
            self._store.remove(f"{self._folder}/{name}")
            return True
        if directory != str(self.directory):
            return False
        Path(leftover.name).unlink(missing_ok=True)
        return True


def _is_staged(name: str) -> bool:
    return _NAME.fullmatch(name) is not None
