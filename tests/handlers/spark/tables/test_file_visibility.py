"""Probes of the files that Spark can read and write. Spark is faked, and files are real.

The integration tests use a cluster.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from py4j.protocol import Py4JError

from sarameya import HandlerError
from sarameya_handlers.landing.stores.clients import Access
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.objects import ObjectStore
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.tables.file_visibility import check_writes
from sarameya_handlers.spark.tables.staging import Staging


@attrs.define(eq=False)
class FakeContext:
    master: str


@attrs.define(eq=False)
class FakeSpark:
    """A fake session that sees only every `sees_each`-th file."""

    sparkContext: FakeContext | None
    sees_each: int = 1
    error: Exception | None = None
    files: int | None = None
    rows: int = 0

    @property
    def read(self) -> Self:
        return self

    def schema(self, columns: str) -> Self:
        return self

    def range(self, start: int, end: int, step: int, tasks: int) -> Writer:
        return Writer(self, tasks)

    def parquet(self, *paths: str) -> Self:
        self.files = len(paths)
        seen = [path.removeprefix("file://") for path in paths][:: self.sees_each]
        self.rows = sum(pq.read_table(path).num_rows for path in seen)
        return self

    def where(self, condition: str) -> Self:
        return self

    def count(self) -> int:
        if self.error is not None:
            raise self.error
        return self.rows


@attrs.define
class Writer:
    spark: FakeSpark
    rows: int

    @property
    def write(self) -> Self:
        return self

    def parquet(self, path: str) -> None:
        if self.spark.error is not None and not path.startswith("file:"):
            raise self.spark.error
        directory = Path(path.removeprefix("file://"))
        directory.mkdir()
        (directory / "_SUCCESS").touch()
        if self.spark.error is not None:
            raise self.spark.error
        self.spark.files = self.rows // self.spark.sees_each
        for number in range(self.spark.files):
            pq.write_table(pa.table({"id": [number]}), directory / f"part-{number}.parquet")


def check_local_reads(spark: Any, directory: Path) -> None:
    Staging(directory).open(spark)


def spark(master: str = "spark://there:7077", **more: Any) -> FakeSpark:
    return FakeSpark(FakeContext(master), **more)


@pytest.mark.parametrize("fake", [spark(), spark("local-cluster[2,1,1024]"), FakeSpark(None)])
def test_readable_probe_is_accepted_and_removed(tmp_path: Path, fake: FakeSpark) -> None:
    check_local_reads(fake, tmp_path)
    assert fake.files
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]"])
def test_local_spark_is_not_probed(tmp_path: Path, master: str) -> None:
    fake = spark(master)
    check_local_reads(fake, tmp_path)
    assert fake.files is None


@pytest.mark.parametrize(
    ("fake", "found"),
    [
        (spark(sees_each=2), "8 rows of 16"),
        (spark(error=FileNotFoundError(2, "none", "x")), "FileNotFoundError: [Errno 2] none: 'x'"),
        (spark(error=Py4JError("FileNotFoundException: file:/d/probe-1 is not there")), "FileNotFoundException"),
    ],
)
def test_unreadable_probe_is_refused_with_advice(tmp_path: Path, fake: FakeSpark, found: str) -> None:
    with pytest.raises(HandlerError) as raised:
        check_local_reads(fake, tmp_path)
    assert str(raised.value).startswith(f"Spark does not read what this process writes to {tmp_path} (")
    assert found in str(raised.value)
    assert "): choose a directory" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def check_local_writes(spark: Any, directory: Path) -> None:
    check_writes(spark, LocalStore(directory.parent), directory.name)


PASSING = [
    OSError(errno.ENOSPC, "No space left on device"),
    Py4JError("java.io.FileNotFoundException: file:/d/probe-1 (No space left on device)"),
    Py4JError("java.io.FileNotFoundException: /tmp/blockmgr-1/0c (No such file or directory)"),
    ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    ValueError("unheard of"),
]


@pytest.mark.parametrize("error", PASSING, ids=str)
@pytest.mark.parametrize("check", [check_local_reads, check_local_writes])
def test_fault_64_other_probe_failure_is_not_permanent(
    tmp_path: Path, check: Callable[[Any, Path], None], error: Exception
) -> None:
    """A full disk or a dying server is no reason to choose another directory."""
    with pytest.raises(LandingError) as raised:
        check(spark(error=error), tmp_path)
    assert not raised.value.permanent
    assert "choose" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fake", [spark(), FakeSpark(None)])
def test_written_probe_is_accepted_and_removed(tmp_path: Path, fake: FakeSpark) -> None:
    check_local_writes(fake, tmp_path)
    assert fake.files
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("fake", "found"),
    [
        (spark(sees_each=4), "4 rows of 16"),
        (spark(error=PermissionError(13, "denied", "x")), "PermissionError: [Errno 13] denied: 'x'"),
        (spark(error=Py4JError("Permission denied: file:/d/probe-1/part-0")), "Permission denied"),
    ],
)
def test_probe_written_elsewhere_is_refused_with_advice(tmp_path: Path, fake: FakeSpark, found: str) -> None:
    with pytest.raises(HandlerError) as raised:
        check_local_writes(fake, tmp_path)
    assert str(raised.value).startswith(f"this process does not read what Spark writes to {tmp_path} (")
    assert found in str(raised.value)
    assert "): choose a directory" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
        'UnsupportedFileSystemException: No FileSystem for scheme "s3a"',
        "AccessDeniedException: s3a://lake/x: Forbidden (Service: S3, Status Code: 403)",
    ],
)
def test_spark_without_a_connector_is_refused_with_advice(text: str) -> None:
    with pytest.raises(HandlerError, match=r"give Spark the store's connector .*hadoop-aws"):
        check_writes(
            spark(error=Py4JError(text)), ObjectStore("memory://lake", Access(MemoryStore())), "_sarameya/landing"
        )


def test_without_spark_nothing_is_probed(tmp_path: Path) -> None:
    check_local_reads(None, tmp_path / "not there")
    check_local_writes(None, tmp_path / "not there")


def test_unwritable_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HandlerError, match=r"cannot stage in .*; give another directory"):
        check_local_reads(spark(), tmp_path / "not there")
