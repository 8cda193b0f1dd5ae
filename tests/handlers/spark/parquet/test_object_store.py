"""A `ParquetTable` in an object store, whose requests fail, or succeed without a response."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sarameya import ConfigError, HandlerError
from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.directory.compaction import compact
from sarameya_handlers.landing.directory.data_files import DataFiles, directory_of
from sarameya_handlers.landing.errors import UnansweredError
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.landing.stores.options import StoreOptions, store_options
from sarameya_handlers.landing.stores.places import store_at
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing, Leftover
from tests.handlers.spark.fake_bucket import Bucket

KEY = ChainKey("sarameya", "orders", 3)
PLAIN = Shaping()
MOST_REQUESTS = 100


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
def table(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ParquetTable:
    return table_in(bucket, tmp_path, monkeypatch)


def table_in(bucket: Bucket, staging: Path, monkeypatch: pytest.MonkeyPatch) -> ParquetTable:
    monkeypatch.setattr("sarameya_handlers.spark.parquet.table.store_at", lambda *_: bucket)
    table = ParquetTable("s3://lake/orders", staging=staging)
    table.open(None)  # type: ignore[arg-type]
    return table


def link(number: int, attempt: str = "", key: ChainKey = KEY) -> Link:
    return Link(
        key=key,
        number=number,
        from_offset=3 * number - 3,
        to_offset=3 * number,
        attempt=attempt or f"a{number}",
        origin=Origin(group="billing"),
    )


def land(table: ParquetTable, of: Link) -> None:
    path = table.staging.directory / f"{of.attempt}.parquet"
    rows = pa.table({"offset": range(of.from_offset, of.to_offset)})
    pq.write_table(rows, path)
    landing = Landing(link=of, staged=StagedFile(path), records=rows.num_rows)
    table.land(None, [landing], PLAIN, lambda phase, landings: None)  # type: ignore[arg-type]


def offsets(table: ParquetTable) -> list[int]:
    return sorted(n for batch in table.batches(["offset"]) for n in batch.column("offset").to_pylist())


def head(table: ParquetTable) -> tuple[int, str]:
    link = table.heads(None, [KEY])[KEY]  # type: ignore[arg-type]
    return link.number, link.attempt


def sweep(table: ParquetTable) -> None:
    for leftover in table.leftovers(None):  # type: ignore[arg-type]
        table.remove(None, leftover)  # type: ignore[arg-type]


def test_links_are_published_objects(table: ParquetTable, bucket: Bucket) -> None:
    for number in range(1, 40):
        land(table, link(number))
    assert head(table) == (39, "a39")
    assert offsets(table) == bucket.plain_offsets() == [*range(117)]
    assert bucket.hidden() == []
    assert len(bucket.visible()) == 39
    assert [found.rows for found in table.links(None, KEY, 38)] == [3, 3]  # type: ignore[arg-type]
    assert list(table.staging.directory.iterdir()) == []
    assert table.leftovers(None) == []  # type: ignore[arg-type]
    with pytest.raises(HandlerError, match="parquet:memory://lake/orders is no directory"):
        table.path  # noqa: B018


def test_landing_takes_few_requests_and_lists_nothing(table: ParquetTable, bucket: Bucket) -> None:
    land(table, link(1))
    land(table, link(2))
    bucket.requests = 0
    table.take_requests()
    land(table, link(3))
    assert bucket.requests == 4, "data, manifest, copy, delete"
    used = table.take_requests()
    assert used is not None
    assert used.requests == {"put": 2, "copy": 1, "delete": 1}
    assert len(table.links(None, KEY, 2)) == 2  # type: ignore[arg-type]
    assert bucket.requests == 7, "and a request for each link, and for the next one, which is absent"
    (data,) = [name for name in bucket.visible() if "a3" in name]
    stored = bucket.measure(data)
    assert stored is not None
    assert stored.size_bytes < used.sent_bytes < stored.size_bytes + 1000
    assert used.received_bytes == 0


def test_attempt_that_loses_leaves_nothing(table: ParquetTable, bucket: Bucket) -> None:
    land(table, link(1))
    land(table, link(1, "b1"))
    assert head(table) == (1, "a1")
    assert bucket.plain_offsets() == [0, 1, 2]
    assert bucket.hidden() == []


def failing(
    new_table: Callable[[Bucket], ParquetTable], links: int, after: bool, work: Callable[[ParquetTable], object]
) -> Iterator[tuple[int, Bucket, ParquetTable]]:
    """Do `work` on a new table of `links` links, once for each of its requests. That request fails.

    Yield the request's number, the bucket and the table. The last time all requests succeed.
    """
    for request in range(1, MOST_REQUESTS):
        bucket = Bucket()
        table = new_table(bucket)
        for number in range(1, links + 1):
            land(table, link(number))
        bucket.requests, bucket.fails_at, bucket.fails_after = 0, request, after
        with suppress(OSError):
            work(table)
        is_reached = bucket.requests >= request
        bucket.fails_at = 0
        yield request, bucket, table
        if not is_reached:
            return
    raise AssertionError("the work takes fewer requests")


@pytest.mark.parametrize("after", [False, True], ids=["not sent", "response lost"])
def test_failure_of_any_request_keeps_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """The 16th link also writes the hint for the search of the head."""
    new_table = partial(table_in, staging=tmp_path, monkeypatch=monkeypatch)
    for request, bucket, table in failing(new_table, 15, after, lambda table: land(table, link(16, "b"))):
        if head(table)[0] == 15:  # done by the next owner, who publishes the links that it finds
            land(table, link(16, "c"))
        land(table, link(17))
        assert offsets(table) == bucket.plain_offsets() == [*range(51)], request
        sweep(table)
        assert bucket.hidden() == [], request
        assert offsets(table) == bucket.plain_offsets() == [*range(51)], request


@pytest.mark.parametrize("after", [False, True], ids=["not sent", "response lost"])
def test_compaction_failing_at_any_request_keeps_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    new_table = partial(table_in, staging=tmp_path, monkeypatch=monkeypatch)
    for request, bucket, table in failing(new_table, 4, after, lambda table: compact(table.store, 10**6)):
        assert offsets(table) == [*range(12)], request
        assert set(Counter(bucket.plain_offsets()).values()) <= {1}, request
        DataFiles(bucket).publish_all()
        assert offsets(table) == bucket.plain_offsets() == [*range(12)], request
        compact(bucket, 10**6)
        sweep(table)
        assert bucket.hidden() == [], request
        assert offsets(table) == bucket.plain_offsets() == [*range(12)], request
        assert len(bucket.visible()) == 1


def test_compaction_to_files_too_large_to_move_is_refused(bucket: Bucket) -> None:
    with pytest.raises(ConfigError, match="file_size = 5368709120: must be at most 4294967296 bytes"):
        compact(bucket, 5 * 2**30)


def test_write_that_may_still_be_linked_is_kept(table: ParquetTable, bucket: Bucket) -> None:
    land(table, link(1))
    late = link(2, "late")
    bucket.put_if_absent(f"{directory_of(late)}/part-0.parquet", b"rows")
    [leftover] = table.leftovers(None)  # type: ignore[arg-type]
    with pytest.raises(HandlerError, match="may still put link 2"):
        table.remove(None, leftover)  # type: ignore[arg-type]
    land(table, link(2))
    table.remove(None, leftover)  # type: ignore[arg-type]
    assert table.leftovers(None) == []  # type: ignore[arg-type]
    assert offsets(table) == bucket.plain_offsets() == [*range(6)]


def test_put_without_a_response_keeps_its_files(
    table: ParquetTable, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(table, link(1))
    put, late = bucket.put_if_absent, list[tuple[str, bytes]]()

    def put_later(name: str, content: bytes) -> bool:
        late.append((name, content))
        raise UnansweredError(errno.EIO, "timed out", name)

    with monkeypatch.context() as slow:
        slow.setattr(bucket, "put_if_absent", put_later)
        with pytest.raises(UnansweredError):
            land(table, link(2))
    assert head(table) == (1, "a1")
    assert put(*late[0])
    assert head(table) == (2, "a2")
    assert offsets(table) == bucket.plain_offsets() == [*range(6)]


def test_compacted_object_that_is_put_late_is_not_published(table: ParquetTable, bucket: Bucket) -> None:
    """A request without a response may take effect later."""
    land(table, link(1))
    [name] = bucket.visible()
    content = bucket.get(name)
    assert content is not None
    land(table, link(2))
    assert compact(bucket, 10**6).compaction is not None
    bucket.put_over(f"{directory_of(link(1))}/part-0.parquet", content)
    bucket.put_over(f"{directory_of(link(2))}/part-0.parquet", content)
    DataFiles(bucket).publish_all()
    assert bucket.plain_offsets() == [*range(6)], "the head's object is not published"
    sweep(table)
    assert bucket.plain_offsets() == offsets(table) == [*range(6)], "nor is an earlier link's"
    assert bucket.hidden() == []


def test_compacted_file_that_is_copied_late_is_swept(table: ParquetTable, bucket: Bucket) -> None:
    land(table, link(1))
    [name] = bucket.visible()
    content = bucket.get(name)
    assert content is not None
    land(table, link(2))
    compact(bucket, 10**6)
    bucket.put_over(name, content)
    assert bucket.plain_offsets() == [0, 0, 1, 1, 2, 2, 3, 4, 5]
    assert offsets(table) == [0, 0, 1, 1, 2, 2, 3, 4, 5], "`verify` sees what plain readers see"
    [copied] = [leftover for leftover in table.leftovers(None) if "put back" in leftover.what]  # type: ignore[arg-type]
    table.remove(None, copied)  # type: ignore[arg-type]
    assert bucket.plain_offsets() == offsets(table) == [*range(6)]
    visible = Leftover(name=f"{bucket.place}/{bucket.visible()[0]}", size_bytes=1, changed=0.0, what="")
    with pytest.raises(HandlerError, match="is no leftover"):
        table.remove(None, visible)  # type: ignore[arg-type]


def test_late_file_of_a_landed_attempt_is_swept(table: ParquetTable, bucket: Bucket) -> None:
    land(table, link(1))
    land(table, link(2))
    bucket.put_over(f"{directory_of(link(1))}/late.parquet", b"of a task that Spark had given up")
    [leftover] = table.leftovers(None)  # type: ignore[arg-type]
    table.remove(None, leftover)  # type: ignore[arg-type]
    assert table.leftovers(None) == []  # type: ignore[arg-type]
    assert offsets(table) == bucket.plain_offsets() == [*range(6)]


def test_probes_of_a_killed_process_are_swept(table: ParquetTable, bucket: Bucket) -> None:
    for probe in ("probe-1", "_probe-2", "probe-3/part-0.parquet"):
        bucket.put_over(f"_sarameya/landing/{probe}", b"probe")
    sweep(table)
    assert list(bucket.names("_sarameya/landing")) == []


def test_staging_of_another_user_is_refused(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sarameya_handlers.spark.parquet.table.store_at", lambda *_: bucket)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    table = ParquetTable("s3://lake/orders")
    table.prepare()
    assert table.staging.directory.stat().st_mode & 0o777 == 0o700
    table.staging.directory.rmdir()
    table.staging.directory.symlink_to(tmp_path)
    with pytest.raises(HandlerError, match="it is not this user's directory"):
        table.prepare()


def test_store_that_accepts_a_name_twice_is_refused(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda client, name, content, **_: put(client, name, content))
    with pytest.raises(HandlerError, match="a name in memory://lake/orders can be taken twice"):
        table_in(bucket, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("place", "options", "problem"),
    [
        ("http://lake/orders", None, "must be a directory, or s3://BUCKET/PATH"),
        ("s3://", None, "path"),
        ("s3://lake/orders", {"regio": "x"}, "did you mean 'region'"),
        ("s3://lake/orders", {"region": 1}, "must be a string"),
        ("s3://lake/orders", {"trusted": "yes"}, "must be true or false"),
        ("gs://lake/orders", {"region": "x"}, "is not for gs://"),
        ("/lake/orders", {"region": "x"}, "is for URLs of object stores, not for /lake/orders"),
        ("", None, "must be a directory, or s3://BUCKET/PATH"),
        ("s3://key:secret@lake/orders", None, "path = 's3://...': must have no credentials"),
        ("abfss://account.dfs.core.windows.net/x", None, "must be abfss://CONTAINER@ACCOUNT"),
        ("abfss://key:secret@account.dfs.core.windows.net/x", None, "path = 'abfss://...': must be abfss://CONTAINER@"),
        ("abfss://lake@account.dfs.core.windows.net/x?sig=secret", None, "'abfss://...': must be abfss://CONTAINER@"),
        ("abfss://lake@onelake.dfs.fabric.microsoft.com/x", None, "must be abfss://CONTAINER@ACCOUNT"),
        ("abfss://lake@account.dfs.core.windows.net/x", {"endpoint": "http://h/other"}, "URL of the account account"),
        ("abfss://lake@account.dfs.core.windows.net/x", {"region": "x"}, "is for s3:// only"),
    ],
)
def test_invalid_place_is_refused(place: str, options: dict[str, object] | None, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        store_at(place, None if options is None else store_options(options))


@pytest.mark.parametrize(
    ("options", "is_trusted"),
    [
        ({}, True),
        ({"endpoint": "https://s3.eu-west-1.amazonaws.com"}, True),
        ({"endpoint": "https://s3.eu-west-1.amazonaws.com.example.org"}, False),
        ({"endpoint": "http://127.0.0.1:1"}, False),
        ({"endpoint": "http://127.0.0.1:1", "trusted": True}, True),
    ],
)
def test_unknown_endpoint_is_used_only_if_trusted(
    options: dict[str, object], is_trusted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setitem(os.environ, "AWS_SECRET_ACCESS_KEY", "secret")
    table = ParquetTable("s3://lake/orders", store=store_options(options), staging=tmp_path)
    assert table.store.is_trusted == is_trusted
    if not is_trusted:
        with pytest.raises(HandlerError, match=r"Confirm them by store = \{ trusted = true \}"):
            table.prepare()


def test_spark_gets_urls_with_its_own_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setitem(os.environ, "AWS_SECRET_ACCESS_KEY", "secret")
    store = store_at("s3://lake/raw/orders/", StoreOptions(endpoint="http://127.0.0.1:1", region="eu-west-1"))
    assert (store.place, store.spark_url("a/b")) == ("s3://lake/raw/orders", "s3a://lake/raw/orders/a/b")
    assert store_at("file:///lake/orders").spark_url("a") == "file:///lake/orders/a"
    assert "secret" not in repr(store)
