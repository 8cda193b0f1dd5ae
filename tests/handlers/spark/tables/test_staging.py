"""Staged files for a Spark on this machine, and on other machines. Spark is faked, files and objects are real."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Self

import attrs
import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from sarameya import ConfigError, HandlerError
from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.stores.clients import Access
from sarameya_handlers.landing.stores.objects import ObjectStore
from sarameya_handlers.spark.tables import staging as module
from sarameya_handlers.spark.tables.file_visibility import runs_here
from sarameya_handlers.spark.tables.staging import Staging

ROWS = pa.table({"number": [1, 2]})
ATTEMPT = "a" * 32
FILE = f"{ATTEMPT}.parquet"
FOLDER = "orders/_sarameya/staging"


@attrs.define(eq=False)
class Context:
    master: str


@attrs.define(eq=False)
class Cluster:
    """A Spark on other machines, which reads URLs of this scheme only."""

    sees: str = "memory:"
    sparkContext: Context = Context("spark://there:7077")
    urls: list[str] = attrs.field(factory=list)

    @property
    def read(self) -> Self:
        return self

    def schema(self, columns: str) -> Self:
        return self

    def parquet(self, *urls: str) -> Self:
        self.urls = [*urls]
        return self

    def where(self, condition: str) -> Self:
        return self

    def count(self) -> int:
        return sum(url.startswith(self.sees) for url in self.urls)


@pytest.fixture
def store() -> ObjectStore:
    return ObjectStore("memory://lake", Access(MemoryStore()))


@pytest.fixture
def staging(store: ObjectStore, tmp_path: Path) -> Staging:
    return Staging(tmp_path, store, FOLDER)


def in_store(store: ObjectStore) -> list[str]:
    return list(store.names(""))


def test_cluster_reads_staged_files_in_the_store(staging: Staging, store: ObjectStore, tmp_path: Path) -> None:
    staging.open(Cluster())  # type: ignore[arg-type]
    assert str(staging) == f"memory://lake/{FOLDER}"
    with staging.stage(ATTEMPT, ROWS) as staged:
        assert in_store(store) == [], "the file is put into the store only if Spark needs it"
        assert staged.spark_url() == staged.spark_url() == f"memory://lake/{FOLDER}/{FILE}"
        assert in_store(store) == [f"{FOLDER}/{FILE}"]
        assert store.get(f"{FOLDER}/{FILE}") == staged.path.read_bytes()
    assert in_store(store) == list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spark", [None, Cluster(sparkContext=Context("local[2]"))])
def test_spark_of_this_machine_reads_staged_files_here(staging: Staging, store: ObjectStore, spark: Any) -> None:
    staging.open(spark)
    with staging.stage(ATTEMPT, ROWS) as staged:
        assert staged.spark_url() == f"file://{staged.path}"
        assert in_store(store) == []


def test_cluster_that_does_not_reach_the_store_is_refused(staging: Staging, store: ObjectStore) -> None:
    with pytest.raises(HandlerError, match=r"memory://lake/orders/_sarameya/staging \(0 rows of 1\): give Spark the"):
        staging.open(Cluster(sees="file:"))  # type: ignore[arg-type]
    assert in_store(store) == []


def test_cluster_without_store_needs_a_mount(tmp_path: Path) -> None:
    Staging(tmp_path).open(Cluster(sees="file:"))  # type: ignore[arg-type]
    with pytest.raises(HandlerError, match=r"choose a directory .* or stage in an object store"):
        Staging(tmp_path).open(Cluster())  # type: ignore[arg-type]


def test_staged_file_moved_into_the_table_is_not_missed(staging: Staging, tmp_path: Path) -> None:
    with staging.stage(ATTEMPT, ROWS, is_final=True) as staged:
        staged.path.rename(tmp_path.parent / "part-0.parquet")


@pytest.mark.parametrize("shares", [True, False])
def test_failed_flush_leaves_nothing(staging: Staging, store: ObjectStore, tmp_path: Path, shares: bool) -> None:
    staging.open(Cluster())  # type: ignore[arg-type]

    def flush() -> None:
        with staging.stage(ATTEMPT, ROWS) as staged:
            if shares:
                staged.spark_url()
            raise RuntimeError("cancelled")

    with pytest.raises(RuntimeError, match="cancelled"):
        flush()
    assert in_store(store) == list(tmp_path.iterdir()) == []


def test_store_that_fails_to_remove_does_not_fail_the_flush(
    staging: Staging, store: ObjectStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    staging.open(Cluster())  # type: ignore[arg-type]

    def refuse(name: str) -> None:
        raise OSError("503 Slow Down")

    with staging.stage(ATTEMPT, ROWS) as staged:
        staged.spark_url()
        monkeypatch.setattr(store, "remove", refuse)
    assert f"cannot remove memory://lake/{FOLDER}/{FILE}: a start of the sink in a day removes it" in caplog.text
    assert [leftover.name for leftover in staging.leftovers()] == [f"memory://lake/{FOLDER}/{FILE}"]


def test_old_files_of_killed_members_are_removed(staging: Staging, store: ObjectStore, tmp_path: Path) -> None:
    staging.open(Cluster())  # type: ignore[arg-type]
    store.put_over(f"{FOLDER}/{FILE}", b"1")
    (tmp_path / FILE).write_bytes(b"1")
    (tmp_path / "heads.json").write_bytes(b"{}")
    staging.remove_old(before=0.0)
    assert len(in_store(store)) == 1
    staging.remove_old(before=2e9 + os.stat(tmp_path).st_mtime)
    assert in_store(store) == []
    assert [path.name for path in tmp_path.iterdir()] == ["heads.json"]


def test_only_files_directly_in_the_folder_are_removed(store: ObjectStore, tmp_path: Path) -> None:
    """A user may give a whole bucket. Names of 32 hexadecimal digits are common in lakes."""
    staging = Staging(tmp_path, store, "_sarameya/staging", is_named=True)
    staging.open(Cluster())  # type: ignore[arg-type]
    others = ["_sarameya/staging/orders/" + FILE, FILE, "warehouse/db/orders/" + FILE]
    for name in others:
        store.put_over(name, b"1")
    staging.remove_old(before=2e9 + os.stat(tmp_path).st_mtime)
    assert list(staging.leftovers()) == []
    assert in_store(store) == sorted(others)


def test_failed_put_is_repeated(staging: Staging, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    staging.open(Cluster())  # type: ignore[arg-type]
    put = store.copy_in

    def fail_once(file: Path, name: str) -> None:
        monkeypatch.setattr(store, "copy_in", put)
        raise OSError("503 Slow Down")

    with staging.stage(ATTEMPT, ROWS) as staged:
        monkeypatch.setattr(store, "copy_in", fail_once)
        with pytest.raises(OSError, match="503"):
            staged.spark_url()
        staged.spark_url()
        assert in_store(store) == [f"{FOLDER}/{FILE}"]
    assert in_store(store) == []


def test_failed_put_at_the_start_is_not_blamed_on_spark(
    staging: Staging, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: Path, name: str) -> None:
        raise PermissionError(errno.EACCES, "Access Denied", name)

    monkeypatch.setattr(store, "copy_in", refuse)
    with pytest.raises(HandlerError, match=r"cannot stage in memory://lake/.*check the URL, the credentials of this"):
        staging.open(Cluster())  # type: ignore[arg-type]


def test_disk_that_fails_leaves_nothing_in_the_store(
    staging: Staging, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging.open(Cluster())  # type: ignore[arg-type]

    def flush() -> None:
        with staging.stage(ATTEMPT, ROWS) as staged:
            staged.spark_url()
            monkeypatch.setattr(Path, "unlink", fail)

    def fail(path: Path, missing_ok: bool) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    with pytest.raises(OSError, match="Input/output"):
        flush()
    assert in_store(store) == []


def test_another_spark_may_read_elsewhere(staging: Staging) -> None:
    staging.open(Cluster())  # type: ignore[arg-type]
    staging.open(Cluster(sparkContext=Context("local[2]")))  # type: ignore[arg-type]
    with staging.stage(ATTEMPT, ROWS) as staged:
        assert staged.spark_url() == f"file://{staged.path}"


def test_temporary_directory_that_was_cleaned_up_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "temporary_staging", lambda: tmp_path / "staging")
    with Staging.temporary("orders").stage(ATTEMPT, ROWS) as staged:
        assert staged.path.exists()


def test_leftovers_that_cannot_be_listed_are_a_named_error(
    staging: Staging, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(directory: str) -> list[str]:
        raise OSError("Access Denied")

    monkeypatch.setattr(store, "entries", refuse)
    with pytest.raises(HandlerError, match=r"memory://lake/.* cannot be listed \(Access Denied\): give this process"):
        list(staging.leftovers())


def test_leftovers_are_removed_locally_and_in_the_store(staging: Staging, store: ObjectStore, tmp_path: Path) -> None:
    store.put_over(f"{FOLDER}/{FILE}", b"12")
    (tmp_path / FILE).write_bytes(b"1")
    found = list(staging.leftovers())
    assert [(leftover.name, leftover.size_bytes) for leftover in found] == [
        (str(tmp_path / FILE), 1),
        (f"memory://lake/{FOLDER}/{FILE}", 2),
    ]
    other = attrs.evolve(found[1], name="memory://lake/orders/part-0.parquet")
    assert [staging.remove(leftover) for leftover in (*found, other)] == [True, True, False]
    assert list(staging.leftovers()) == []


def test_staging_url_also_has_a_local_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "temporary_staging", lambda: tmp_path)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    staging = Staging.at("s3://lake/staging/", "db.orders")
    assert staging.directory == tmp_path / "db.orders"
    monkeypatch.setattr(staging, "_reads_from_store", True)
    assert str(staging) == "s3://lake/staging/_sarameya/staging/db.orders"


def test_staging_in_a_local_directory_stays_there(tmp_path: Path) -> None:
    assert Staging.at(tmp_path, "orders").directory == tmp_path / "orders"
    assert Staging.at(tmp_path.as_uri()).directory == tmp_path
    assert str(ParquetTable(tmp_path).staging) == f"{tmp_path}/_sarameya/staging"


def test_place_that_is_neither_is_refused_by_the_option() -> None:
    with pytest.raises(ConfigError, match=r"staging = 'hdfs://n/x': must be a directory, or a URL"):
        Staging.at("hdfs://n/x")


def connect(host: str, master: str) -> Any:
    """Return a session of Spark Connect, which is recognized by the module of its class."""

    class Session:
        client = type("Client", (), {"host": host})
        conf = {"spark.master": master}

    Session.__module__ = "pyspark.sql.connect.session"
    return Session()


@pytest.mark.parametrize(
    ("host", "master", "here"),
    [
        ("localhost", "local[*]", True),
        ("127.0.0.1", "local", True),
        ("localhost", "spark://there:7077", False),
        ("localhost", "local-cluster[2,1,512]", False),
        ("spark.example.com", "local[*]", False),
    ],
)
def test_connect_server_on_a_loopback_address_runs_here(host: str, master: str, here: bool) -> None:
    assert runs_here(connect(host, master)) is here


@attrs.define(eq=False)
class Tunnelled(Cluster):
    """A Connect server that seems to be local, and is not: a tunnel leads to it."""

    client: Any = attrs.field(factory=lambda: type("Client", (), {"host": "localhost"}))
    conf: dict[str, str] = attrs.field(factory=lambda: {"spark.master": "local[*]"})


Tunnelled.__module__ = "pyspark.sql.connect.session"


def test_connect_server_behind_a_tunnel_reads_from_the_store(staging: Staging) -> None:
    server: Any = Tunnelled(sparkContext=None)  # type: ignore[arg-type]
    assert runs_here(server)
    staging.open(server)
    assert str(staging) == f"memory://lake/{FOLDER}"


def test_named_store_is_used_by_a_connect_server_of_this_machine(store: ObjectStore, tmp_path: Path) -> None:
    staging = Staging(tmp_path, store, FOLDER, is_named=True)
    server: Any = Tunnelled(sparkContext=None)  # type: ignore[arg-type]
    staging.open(server)
    assert str(staging) == f"memory://lake/{FOLDER}"
    assert len(server.urls) == 1
