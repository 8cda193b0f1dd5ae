"""Dead letters in a topic and in files: they are complete and durable, or writing them raises a clear error."""

from __future__ import annotations

import errno
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest
import trio
from obstore.store import MemoryStore
from trio.testing import MockClock

from sarameya import Config, ConfigError, HandlerError
from sarameya.embedded import EmbeddedCluster
from sarameya.testing import VIRTUAL_EPOCH, Api, ErrorCode, memory_cluster, virtual_wall_clock
from sarameya_handlers.landing.dead_letters.files import FileDeadLetters, file_name
from sarameya_handlers.landing.dead_letters.letters import DeadLetter, DeadLetterError
from sarameya_handlers.landing.dead_letters.options import dead_letters
from sarameya_handlers.landing.dead_letters.topic import TopicDeadLetters
from sarameya_handlers.landing.directory.parquet_merge import count_rows
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.landing.stores.clients import Access
from sarameya_handlers.landing.stores.objects import ObjectStore
from tests.producer.kit import log

LINK = Link(
    key=ChainKey("lake", "orders", 3),
    number=7,
    from_offset=100,
    to_offset=200,
    attempt="a" * 32,
    origin=Origin(group="g", topic_id="b" * 32),
)
LETTERS = [
    DeadLetter(
        offset=120,
        error="no number: 'x'",
        key=b"k",
        value=b"\xff",
        headers=(("h", b"1"), ("h", None)),
        timestamp=-5_000,
    ),
    DeadLetter(offset=150, error="too large \ud800", timestamp=4_102_444_800_000, timestamp_type=1),
]
P = "__sarameya.errors."


def topic_letters(cluster: EmbeddedCluster, **options: Any) -> TopicDeadLetters:
    config = Config(**options) if options else None
    return TopicDeadLetters(
        cluster.bootstrap_servers, "dead", config, transport=cluster.transport, wall_clock=virtual_wall_clock
    )


# -- a topic ----------------------------------------------------------------------------------------


async def test_dead_letter_in_a_topic_has_the_record_and_its_error(autojump_clock: MockClock) -> None:
    async with memory_cluster({"dead": 1}) as cluster:
        async with topic_letters(cluster) as letters:
            await letters.write(LINK, LETTERS)
        first, second = log(cluster, topic="dead")

    assert (first.key, first.value) == (b"k", b"\xff")
    assert first.timestamp == VIRTUAL_EPOCH * 1000, (
        "not the record's timestamp: retention would remove the letter at once"
    )
    assert first.headers == (
        ("h", b"1"),
        ("h", None),
        (P + "topic", b"orders"),
        (P + "partition", b"3"),
        (P + "offset", b"120"),
        (P + "timestamp", b"-5000"),
        (P + "exception.message", b"no number: 'x'"),
        (P + "sink", b"lake"),
        (P + "group", b"g"),
        (P + "link", b"7"),
        (P + "attempt", b"a" * 32),
    )
    assert (second.key, second.value) == (None, None)
    assert dict(second.headers)[P + "exception.message"] == b"too large ?"


async def test_letter_without_a_timestamp_has_no_timestamp_header(autojump_clock: MockClock) -> None:
    async with memory_cluster({"dead": 1}) as cluster, topic_letters(cluster) as letters:
        await letters.write(LINK, [DeadLetter(offset=1, error="e")])
        (message,) = log(cluster, topic="dead")
    assert P + "timestamp" not in dict(message.headers)


async def test_letters_written_again_are_duplicated(autojump_clock: MockClock) -> None:
    """Delivery is at least once: the owner may change between the letters and their link."""
    async with memory_cluster({"dead": 1}) as cluster, topic_letters(cluster) as letters:
        await letters.write(LINK, LETTERS)
        await letters.write(attrs.evolve(LINK, attempt="c" * 32), LETTERS)
        attempts = [dict(message.headers)[P + "attempt"] for message in log(cluster, topic="dead")]
    assert attempts == [b"a" * 32] * 2 + [b"c" * 32] * 2


async def test_lost_produce_response_duplicates_no_letter(autojump_clock: MockClock) -> None:
    async with memory_cluster({"dead": 1}) as cluster, topic_letters(cluster) as letters:
        cluster.drop_next(Api.PRODUCE, 2)
        await letters.write(LINK, LETTERS)
        assert len(log(cluster, topic="dead")) == 2


async def test_large_record_can_be_a_dead_letter(autojump_clock: MockClock) -> None:
    cluster = EmbeddedCluster({"dead": 1}, in_memory=True, max_batch_size=8 * 2**20, wall_clock=virtual_wall_clock)
    async with cluster, topic_letters(cluster, max_request_bytes=2_000) as letters:
        await letters.write(LINK, [DeadLetter(offset=1, error="e", value=bytes(5 * 2**20))])
        assert len(log(cluster, topic="dead")) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "grant this principal WRITE"),
        (ErrorCode.MESSAGE_TOO_LARGE, r"max\.message\.bytes"),
        (ErrorCode.INVALID_RECORD, r"cleanup\.policy=compact"),
    ],
)
async def test_letters_refused_by_the_topic_raise_with_advice(
    autojump_clock: MockClock, code: ErrorCode, words: str
) -> None:
    async with memory_cluster({"dead": 1}) as cluster, topic_letters(cluster) as letters:
        cluster.fail_next(Api.PRODUCE, code, None)
        with pytest.raises(DeadLetterError, match=rf"link 7 of lake/orders-3.*topic 'dead'.*{words}"):
            await letters.write(LINK, LETTERS)
        cluster.clear_faults()
        await letters.write(LINK, LETTERS)
        assert len(log(cluster, topic="dead")) == 2


async def test_refused_letter_does_not_duplicate_its_neighbours(autojump_clock: MockClock) -> None:
    large = attrs.evolve(LETTERS[1], value=random.Random(1).randbytes(5_000))
    cluster = EmbeddedCluster({"dead": 1}, in_memory=True, max_batch_size=2_000, wall_clock=virtual_wall_clock)
    async with cluster, topic_letters(cluster) as letters:
        for _ in range(10):
            with pytest.raises(DeadLetterError, match=r"max\.message\.bytes"):
                await letters.write(LINK, [LETTERS[0], large])
        # First together with the refused letter, then alone, and never again.
        assert [record.value for record in log(cluster, topic="dead")] == [LETTERS[0].value] * 2


async def test_missing_dead_letter_topic_raises_with_advice(autojump_clock: MockClock) -> None:
    async with memory_cluster() as cluster, topic_letters(cluster) as letters:
        with pytest.raises(DeadLetterError, match="create the topic"):
            await letters.write(LINK, LETTERS)


async def test_unreachable_brokers_raise_after_the_delivery_timeout(autojump_clock: MockClock) -> None:
    async with memory_cluster({"dead": 1}) as cluster, topic_letters(cluster, delivery_timeout=30.0) as letters:
        await letters.write(LINK, LETTERS)
        await cluster.stop_broker(0)
        began = trio.current_time()
        with pytest.raises(DeadLetterError, match=r"not acknowledged in 30 s") as caught:
            await letters.write(LINK, LETTERS)
        assert caught.value.retriable
        assert trio.current_time() - began == 30
        await cluster.start_broker(0)
        await letters.write(LINK, LETTERS)


async def test_dead_letters_outside_of_their_context_raise() -> None:
    letters = TopicDeadLetters("localhost:9092", "dead")
    with pytest.raises(HandlerError, match="entered first"):
        await letters.write(LINK, LETTERS)


# -- files ------------------------------------------------------------------------------------------


def files(directory: Path) -> list[Path]:
    return list(directory.iterdir())


async def test_dead_letters_in_a_file_have_the_record_and_its_error(tmp_path: Path) -> None:
    async with FileDeadLetters(tmp_path / "dead") as letters:
        await letters.write(LINK, LETTERS[::-1])
    (path,) = files(tmp_path / "dead")
    rows = pq.read_table(path).to_pylist()

    assert path.name.startswith("lake-orders-3-00000000000000000120-")
    first, second = rows
    assert {name: value for name, value in first.items() if name != "written"} == {
        "key": b"k",
        "value": b"\xff",
        "topic": "orders",
        "partition": 3,
        "offset": 120,
        "timestamp": first["timestamp"],
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
        "error": "no number: 'x'",
        "sink": "lake",
        "group": "g",
        "link": 7,
        "attempt": "a" * 32,
    }
    assert first["timestamp"].timestamp() == -5
    assert second["headers"] is None
    assert (second["timestampType"], second["error"]) == (1, "too large ?")


async def test_same_letters_replace_their_file_and_others_do_not(tmp_path: Path) -> None:
    async with FileDeadLetters(tmp_path) as letters:
        await letters.write(LINK, LETTERS)
        await letters.write(attrs.evolve(LINK, number=9, attempt="c" * 32), LETTERS)
        assert len(files(tmp_path)) == 1
        await letters.write(LINK, LETTERS[:1])
        await letters.write(LINK, LETTERS[1:])
    rows = [row for path in files(tmp_path) for row in pq.read_table(path).to_pylist()]
    assert sorted(row["offset"] for row in rows) == [120, 120, 150, 150]


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(LINK, key=ChainKey("other", "orders", 3)),
        attrs.evolve(LINK, key=ChainKey("lake", "other", 3)),
        attrs.evolve(LINK, key=ChainKey("lake", "orders", 4)),
        attrs.evolve(LINK, origin=Origin(group="h", topic_id="b" * 32)),
        attrs.evolve(LINK, origin=Origin(group="g", topic_id="c" * 32)),
    ],
    ids=["sink", "topic", "partition", "group", "recreated topic"],
)
def test_letters_of_other_links_have_other_file_names(other: Link) -> None:
    assert file_name(other, LETTERS) != file_name(LINK, LETTERS)


def test_file_name_is_short_enough_and_not_hidden() -> None:
    key = ChainKey("_/ä" * 100, "." * 249, 2**31 - 1)
    name = file_name(attrs.evolve(LINK, key=key), LETTERS)
    assert len(name) < 255
    assert name[0] not in "._"
    assert "/" not in name


async def test_no_letters_make_no_file(tmp_path: Path) -> None:
    async with FileDeadLetters(tmp_path) as letters:
        await letters.write(LINK, [])
    assert files(tmp_path) == []


async def test_full_disk_raises_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with FileDeadLetters(tmp_path) as letters:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(DeadLetterError, match=r"link 7.*2 dead letters.*No space left on device") as caught:
                await letters.write(LINK, LETTERS)
        assert caught.value.retriable
        assert files(tmp_path) == []
        await letters.write(LINK, LETTERS)
    assert len(files(tmp_path)) == 1


async def test_unfinished_file_is_removed_after_a_day(tmp_path: Path) -> None:
    old, young = tmp_path / ".put-old", tmp_path / ".put-young"
    for path in (old, young):
        path.write_bytes(b"")
    os.utime(old, (0, 0))
    async with FileDeadLetters(tmp_path):
        assert files(tmp_path) == [young]


async def test_invalid_directory_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(HandlerError, match="cannot write dead letters"):
        async with FileDeadLetters(tmp_path / "file" / "below"):
            pass


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE], ids=errno.errorcode.get)
async def test_passing_disk_failure_at_the_start_is_retriable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    with pytest.raises(DeadLetterError, match=f"cannot write dead letters to .*: {os.strerror(code)}") as raised:
        async with FileDeadLetters(tmp_path):
            pass
    assert raised.value.retriable


async def test_letters_are_written_to_an_object_store() -> None:
    client = MemoryStore()
    letters = FileDeadLetters("s3://lake/dead")
    letters._store = ObjectStore("s3://lake/dead", Access(client))
    async with letters:
        for _ in range(2):
            await letters.write(LINK, LETTERS)
    assert list(letters._store.names("")) == [file_name(LINK, LETTERS)]
    assert count_rows(letters._store, file_name(LINK, LETTERS)) == 2


# -- options ----------------------------------------------------------------------------------------


def test_options_select_a_directory_or_a_topic(tmp_path: Path) -> None:
    assert dead_letters({"path": str(tmp_path)}).name == f"directory {tmp_path}"
    assert dead_letters({"topic": "dead", "bootstrap_servers": ["localhost:9092"]}).name == "topic dead"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "dead_letters = .*either path or topic"),
        ({"path": "x", "topic": "y", "bootstrap_servers": "z:1"}, "either path or topic"),
        ({"topic": "y"}, r"dead_letters\.bootstrap_servers = None"),
        ({"topic": "", "bootstrap_servers": "z:1"}, r"dead_letters\.topic = ''"),
        ({"topic": "y", "bootstrap_servers": ["z"]}, r"dead_letters\.bootstrap_servers = 'z': must be HOST:PORT"),
        ({"path": 3}, r"dead_letters\.path = 3"),
        ({"topic": "y", "bootstrap_servers": 5}, r"dead_letters\.bootstrap_servers = 5: must be a list of HOST:PORT"),
        ({"path": ""}, r"dead_letters\.path = ''"),
        ({"path": "http://b/x"}, r"dead_letters\.path = 'http://b/x'"),
        ({"path": "x", "store": {"regio": "y"}}, r"dead_letters\.store\.regio.*did you mean 'region'"),
        ({"topic": "x", "store": {}, "bootstrap_servers": "z:1"}, r"dead_letters\.store = {}: is for the URL"),
        ({"pth": "x"}, r"dead_letters\.pth.*did you mean 'path'"),
        ("dead", "dead_letters = 'dead': must be a table"),
    ],
    ids=repr,
)
def test_invalid_option_is_named(options: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        dead_letters(options)
