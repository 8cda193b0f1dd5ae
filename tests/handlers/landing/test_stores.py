"""Rules that every store of a table's directory follows."""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import MemoryStore

from sarameya import ConfigError, StoreUsed
from sarameya_handlers.landing.directory.parquet_merge import count_rows
from sarameya_handlers.landing.errors import UnansweredError
from sarameya_handlers.landing.stores import clients, objects
from sarameya_handlers.landing.stores.clients import Access, os_error
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.landing.stores.objects import ObjectStore
from sarameya_handlers.landing.stores.options import StoreOptions
from sarameya_handlers.landing.stores.places import store_at
from sarameya_handlers.landing.stores.store import Store

RACES = 50


@pytest.fixture(params=["local", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return LocalStore(tmp_path / "table")
    return ObjectStore("memory://table", Access(MemoryStore()))


NAMES = ["f", "a/b/0.json", "a/%2E/ü x", "a/v=x%2Fy%3D/part.parquet", "a/#1/~"]


@pytest.mark.parametrize("name", NAMES)
def test_file_is_read_by_its_name(store: Store, name: str) -> None:
    assert store.get(name) is None
    assert not store.is_there(name)
    assert store.measure(name) is None
    assert store.put_if_absent(name, b"content")
    assert store.get(name) == b"content"
    assert store.is_there(name)
    assert list(store.names("")) == [name]
    measured = store.measure(name)
    assert measured is not None
    assert measured.size_bytes == 7


def test_name_is_created_only_once(store: Store) -> None:
    assert store.put_if_absent("a/1", b"first")
    assert not store.put_if_absent("a/1", b"second")
    assert store.get("a/1") == b"first"
    assert list(store.names("a")) == ["a/1"]


def test_race_for_a_name_has_one_winner(store: Store) -> None:
    won: list[tuple[int, int]] = []
    together = Barrier(4)

    def race(racer: int) -> None:
        for number in range(RACES):
            together.wait()
            if store.put_if_absent(f"a/{number}", str(racer).encode()):
                won.append((number, racer))

    racers = [Thread(target=race, args=(racer,)) for racer in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(number for number, _ in won) == list(range(RACES))
    assert all(store.get(f"a/{number}") == str(racer).encode() for number, racer in won)


def test_probe_of_a_store_leaves_no_file(store: Store) -> None:
    store.prepare(["_sarameya/landing"])
    assert store.gives_names_once("_sarameya/landing")
    assert list(store.names("")) == []


def test_store_that_ignores_the_precondition_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore("memory://table", Access(MemoryStore()))
    put = obstore.put
    monkeypatch.setattr(obstore, "put", lambda client, name, content, **_: put(client, name, content))
    assert not store.gives_names_once("_sarameya/landing")


def test_probe_without_a_winner_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore("memory://table", Access(MemoryStore()))
    monkeypatch.setattr(store, "put_if_absent", lambda name, content: False)
    with pytest.raises(OSError, match="no put of a new name succeeded"):
        store.gives_names_once("_sarameya/landing")


def test_conditional_put_is_not_retried_and_a_copy_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A retried put may be refused although the first attempt succeeded."""
    client, once, patient = MemoryStore(), MemoryStore(), MemoryStore()
    store = ObjectStore("memory://table", Access(client, once=once, patient=patient))
    assert store.put_if_absent("a", b"x")
    assert [each["path"] for page in obstore.list(once) for each in page] == ["a"]
    obstore.put(patient, "b", b"x")
    store.move([("b", "c")])
    assert obstore.get(patient, "c").bytes() == b"x"


def test_clients_differ_in_retries_and_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(clients.S3Store, "from_url", lambda url, **options: made.append(options) or MemoryStore())
    store_at("s3://lake/orders", StoreOptions(endpoint="http://127.0.0.1:1"))
    retries = [options["retry_config"]["max_retries"] for options in made]
    seconds = [options["client_options"]["timeout"].total_seconds() for options in made]
    assert (retries, seconds) == ([5, 0, 5], [30, 30, 600])


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_endpoint_from_the_environment_is_used_and_checked(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(clients.S3Store, "from_url", lambda url, **options: made.append(options) or MemoryStore())
    monkeypatch.setenv(variable, "http://theirs")
    assert not store_at("s3://lake/orders").is_trusted
    assert {options["config"]["endpoint"] for options in made} == {"http://theirs"}
    amazon = StoreOptions(endpoint="https://x.amazonaws.com")
    if variable == "AWS_ENDPOINT_URL_S3":  # it takes precedence over the option
        with pytest.raises(ConfigError, match="must be AWS_ENDPOINT_URL_S3, which is http://theirs"):
            store_at("s3://lake/orders", amazon)
    else:
        assert store_at("s3://lake/orders", amazon).is_trusted


def test_empty_objects_are_not_files() -> None:
    """Consoles and connectors create them as directory markers."""
    client = MemoryStore()
    store = ObjectStore("memory://table", Access(client))
    for name in ("a/d", "a/d/v=1", "a/e"):
        obstore.put(client, name, b"")
    assert not store.has_files("a")
    store.put_if_absent("a/d/v=1/x.parquet", b"rows")
    assert list(store.names("a")) == ["a/d/v=1/x.parquet"]
    assert store.entries("a") == ["d"]


def test_put_over_replaces_the_content(store: Store) -> None:
    store.put_if_absent("a/1", b"x")
    for content in (b"first", b"2"):
        store.put_over("a/head", content)
        assert store.get("a/head") == content
    assert sorted(store.names("a")) == ["a/1", "a/head"]


def test_directory_lists_its_files_and_entries(store: Store) -> None:
    for name in ("a/b/2", "a/b/1", "a/c/d/3", "ab/4", "5"):
        store.put_if_absent(name, b"12")
    assert sorted(store.names("a")) == ["a/b/1", "a/b/2", "a/c/d/3"]
    assert store.entries("a") == ["b", "c"]
    assert store.entries("a/b") == ["1", "2"]
    assert store.entries("") == ["5", "a", "ab"]
    assert store.has_files("a")
    measured = store.measure("a")
    assert measured is not None
    assert measured.size_bytes == 6
    assert not store.has_files("x")
    assert list(store.names("x")) == store.entries("x") == []


def test_directory_is_removed_with_all_its_files(store: Store) -> None:
    for name in ("a/b/1", "a/c/2", "ab/3"):
        store.put_if_absent(name, b"x")
    for _ in range(2):
        store.remove("a")
        assert list(store.names("")) == ["ab/3"]
    for _ in range(2):
        store.remove("ab/3")
        assert list(store.names("")) == []


def test_repeated_move_has_no_effect(store: Store) -> None:
    store.put_if_absent("a/1", b"one")
    store.put_if_absent("a/2", b"two")
    moves = [("a/1", "b/c/1"), ("a/gone", "b/gone"), ("a/2", "2")]
    for _ in range(2):
        store.move(moves)
        assert {name: store.get(name) for name in store.names("")} == {"b/c/1": b"one", "2": b"two"}


def test_local_file_is_moved_into_the_store(store: Store, tmp_path: Path) -> None:
    local = tmp_path / "mine"
    local.write_bytes(b"content")
    store.take(local, "a/b/theirs")
    assert store.get("a/b/theirs") == b"content"
    assert not local.exists()


def test_written_file_exists_after_the_context(store: Store) -> None:
    with store.writing("a/v=1/x.parquet") as path:
        pq.write_table(pa.table({"n": range(1000)}), path)
    store.sync_files("a", ["a/v=1/x.parquet"])
    store.sync_names("a")
    assert count_rows(store, "a/v=1/x.parquet") == 1000
    with pq.ParquetFile(store.open("a/v=1/x.parquet")) as file:
        assert file.read()["n"].to_pylist() == list(range(1000))
        assert sum(batch.num_rows for batch in file.iter_batches(batch_size=7)) == 1000


def test_failed_write_creates_no_object() -> None:
    store = ObjectStore("memory://table", Access(MemoryStore()))

    def write() -> None:
        with store.writing("a") as path:
            path.write_bytes(b"half of it")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert list(store.names("")) == []


@pytest.mark.parametrize(
    "read", [lambda store: count_rows(store, "a/x"), lambda store: pq.ParquetFile(store.open("a/x"))]
)
def test_missing_file_raises_with_its_name(store: Store, read: Callable[[Store], object]) -> None:
    with pytest.raises(FileNotFoundError, match="a/x"):
        read(store)


def response(status: int, code: str = "") -> str:
    body = f"<Error><Code>{code}</Code><Message>It is &#34;so&#34;.</Message></Error>" if code else ""
    return f"Generic S3 error: Error performing PUT in 1ms - Server returned non-2xx status code: {status} X: {body}"


@pytest.mark.parametrize(
    ("error", "number", "text"),
    [
        (GenericError(response(400, "InvalidArgument")), errno.EINVAL, 'InvalidArgument: It is "so".'),
        (GenericError(response(501, "NotImplemented")), errno.EIO, "NotImplemented"),
        (GenericError(response(503, "SlowDown")), errno.EAGAIN, "SlowDown"),
        (GenericError(response(429)), errno.EAGAIN, "Generic S3 error"),
        (GenericError(response(400, "ExpiredToken")), errno.EAGAIN, "ExpiredToken"),
        (PermissionDeniedError(response(403, "AccessDenied")), errno.EACCES, "AccessDenied"),
        (FileNotFoundError(response(404)), errno.ENOENT, "there is no such object"),
        (FileNotFoundError(response(404, "NoSuchBucket")), errno.EINVAL, "NoSuchBucket"),
        (GenericError("error sending request\n\nDebug source: ..."), errno.EIO, "error sending request"),
        (AlreadyExistsError(response(409, "ConditionalRequestConflict")), errno.EAGAIN, "ConditionalRequestConflict"),
        (GenericError(response(400, "RequestTimeout")), errno.EAGAIN, "RequestTimeout"),
        (GenericError(response(301, "PermanentRedirect")), errno.EINVAL, "PermanentRedirect"),
        (NotImplementedError("conditional puts are disabled"), errno.EINVAL, "disabled"),
    ],
)
def test_error_of_an_object_store_becomes_an_os_error(
    error: Exception, number: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any error that does not prove that nothing was written is an `UnansweredError`."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(obstore, "put", fail)
    with pytest.raises(OSError, match=re.escape(text)) as raised:
        ObjectStore("s3://lake", Access(MemoryStore())).put_if_absent("a", b"x")
    assert (raised.value.errno, raised.value.filename) == (number, "s3://lake/a")
    assert isinstance(raised.value, UnansweredError) == (number == errno.EIO)


def test_refused_put_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_PAUSE_SECONDS", 0.0)
    store, put, refusals = ObjectStore("s3://lake", Access(MemoryStore())), obstore.put, [409, 429, 0]

    def refuse(*arguments: Any, **options: Any) -> object:
        if status := refusals.pop(0):
            raise GenericError(response(status, "ExistingObjectIsDirectory"))
        return put(*arguments, **options)

    monkeypatch.setattr(obstore, "put", refuse)
    store.put_over("a", b"x")
    assert store.get("a") == b"x"
    refusals[:] = [409] * 100
    with pytest.raises(OSError, match="ExistingObjectIsDirectory"):
        store.put_over("a", b"y")
    assert 90 < len(refusals) < 100


def test_object_is_read_in_ranges() -> None:
    store = ObjectStore("memory://table", Access(MemoryStore()))
    store.put_if_absent("a", b"0123456789")
    with store.open("a") as reader:
        assert (reader.read(3), reader.tell()) == (b"012", 3)
        assert reader.seek(-4, io.SEEK_END) == 6
        assert (reader.read(2), reader.read(), reader.read(1)) == (b"67", b"89", b"")
        assert reader.seek(1) == 1
        assert reader.seek(2, io.SEEK_CUR) == 3
        assert reader.read(None) == b"3456789"


@pytest.mark.parametrize(("size", "requests"), [(0, 1), (100, 1), (101, 4), (300, 5), (301, 6)])
def test_requests_for_the_parts_of_a_file_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int, requests: int
) -> None:
    """A store charges one request that starts a multipart upload, one for each part, and one that completes it."""
    monkeypatch.setattr(objects, "_PART_BYTES", 100)
    store, file = ObjectStore("memory://lake", Access(MemoryStore())), tmp_path / "file"
    file.write_bytes(b"x" * size)
    store.copy_in(file, "data")
    assert store.usage.take("t") == used({"put": requests}, sent=size)
    assert store.usage.take("t") is None
    assert store.get("data") == file.read_bytes()
    assert store.usage.take("t") == used({"get": 1}, received=size)
    assert store.get("nothing") is None
    assert store.usage.take("t") == used({"get": 1})


def test_listings_are_counted_by_their_responses() -> None:
    store = ObjectStore("memory://lake", Access(MemoryStore()))
    assert list(store.names("d")) == []
    assert store.usage.take("t") == used({"list": 1})
    for number in range(1001):
        store.put_over(f"d/{number}", b"x")
    store.usage.take("t")
    assert len(list(store.names("d"))) == 1001
    assert store.usage.take("t") == used({"list": 2})
    with pytest.raises(FileNotFoundError):
        store.read("nothing", 0, 1000)
    assert store.usage.take("t") == used({"get": 1})


def used(requests: dict[str, int], *, sent: int = 0, received: int = 0) -> StoreUsed:
    return StoreUsed(table="t", requests=requests, sent_bytes=sent, received_bytes=received)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bulk delete failed for a/b: not allowed. (code: 403)", errno.EACCES),
        ("status code: 409 Conflict: <Code>BlobImmutableDueToPolicy</Code><Message>legal hold</Message>", errno.EINVAL),
        ("status code: 400: <Code>InvalidBlockList</Code><Message>another upload</Message>", errno.EAGAIN),
        ("status code: 404: <Code>ContainerNotFound</Code><Message>none</Message>", errno.EINVAL),
    ],
)
def test_errors_of_azure_are_distinguished(text: str, expected: int) -> None:
    assert os_error(GenericError(text), "abfss://lake").errno == expected


def test_object_is_published_through_this_process_once() -> None:
    """Several processes read and put the same object at the same time, where copies may be pending."""
    client = MemoryStore()
    store = ObjectStore("memory://table", Access(client, copies=False))
    store.put_over("hidden", b"rows")
    obstore.put(client, "shown", b"rows")
    store.move([("hidden", "shown")])
    assert (store.get("hidden"), store.get("shown")) == (None, b"rows")
    store.move([("hidden", "shown")])
    assert store.get("shown") == b"rows"
    used = store.usage.take("table")
    assert used is not None
    assert "copy" not in used.requests
