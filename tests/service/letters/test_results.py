"""`sarameya letters list` and `show` over the in-memory cluster, in virtual time."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya.error_codes import ErrorCode
from sarameya.errors import GroupAuthorizationError, RecordError, TopicAuthorizationError, UnknownTopicError
from sarameya.protocol.records.batch_codec import build
from sarameya.protocol.versions import Api
from sarameya.service.groups.checks import GroupChangeError
from sarameya.service.groups.topic_choice import TopicChoice
from sarameya.service.letters import results
from sarameya.service.letters.filters import LetterFilter
from sarameya.service.letters.log_reader import Selection
from sarameya.testing import memory_cluster
from tests.consumer.kit import edit_answers
from tests.service.letters.kit import DEAD, GROUP, clients_of, redriven, sent, write

ALL = Selection(TopicChoice(DEAD))


async def shown(cluster: Any, selection: Selection = ALL, **options: Any) -> list[str]:
    """Return the values of the letters that are shown."""
    texts: list[str] = []

    def emit(text: str) -> bool:
        texts.append(text)
        return True

    assert await results.show(clients_of(cluster), selection, emit, as_json=True, **options) == ()
    return [json.loads(text)["value"] for text in texts]


async def test_letters_are_counted_and_shown_by_partition_and_offset(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 3}) as cluster:
        write(cluster, b"a", b"b", partition=2)
        write(cluster, b"c", error="timed out")
        result = await results.list_letters(clients_of(cluster), ALL)
        assert (result.document["letters"], result.errors) == (3, ())
        assert [(row["error_message"], row["letters"]) for row in result.document["kinds"]] == [
            ("bad value", 2),
            ("timed out", 1),
        ]
        assert await shown(cluster) == ["c", "a", "b"]
        assert await shown(cluster, limit=2) == ["c", "a"]
        assert await shown(cluster, Selection(TopicChoice(DEAD, (2,)), (1, None))) == ["b"]
        assert await shown(cluster, Selection(TopicChoice(DEAD), filter=LetterFilter(error_texts=("timed",)))) == ["c"]


async def test_pending_letters_are_those_that_were_not_redriven(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, b"a", b"b", b"c")
        await redriven(cluster, Selection(TopicChoice(DEAD), (1, 1)))
        assert await shown(cluster, pending_of=GROUP) == ["a", "c"]
        assert (await results.list_letters(clients_of(cluster), ALL, pending_of=GROUP)).document["letters"] == 2
        assert (await results.list_letters(clients_of(cluster), ALL)).document["letters"] == 3


async def test_reading_stops_once_the_output_is_closed(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1}) as cluster:
        write(cluster, b"a", b"b", b"c")
        texts: list[str] = []

        def closed(text: str) -> bool:
            texts.append(text)
            return len(texts) < 2

        await results.show(clients_of(cluster), ALL, closed)
        assert len(texts) == 2
        assert texts[1].startswith(f"\n{DEAD}-0 offset 1, ")


async def test_topic_without_letters_shows_no_letters(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 2}) as cluster:
        texts: list[str] = []
        assert await results.show(clients_of(cluster), ALL, lambda text: not texts.append(text)) == ()
        assert texts == ["no letters\n"]
        assert await shown(cluster) == []
        assert (await results.list_letters(clients_of(cluster), ALL)).text == "no letters"


async def test_letters_written_meanwhile_are_not_shown(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1}) as cluster, trio.open_nursery() as nursery:
        write(cluster, b"a", b"b")
        cluster.delay_next(Api.FETCH, 1.0)
        nursery.start_soon(lambda: _write_later(cluster))
        assert await shown(cluster) == ["a", "b"]


async def _write_later(cluster: Any) -> None:
    await trio.sleep(0.5)
    write(cluster, b"c")


async def test_missing_topic_partition_or_permission_raises(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 1}) as cluster:
        write(cluster, b"a")
        with pytest.raises(UnknownTopicError):
            await shown(cluster, Selection(TopicChoice("nothing")))
        with pytest.raises(GroupChangeError, match="has 1 partition"):
            await shown(cluster, Selection(TopicChoice(DEAD, (1,))))
        cluster.fail_next(Api.FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)
        with pytest.raises(TopicAuthorizationError, match="READ and DESCRIBE on the topic"):
            await shown(cluster, ALL)
        cluster.fail_next(Api.OFFSET_FETCH, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        with pytest.raises(GroupAuthorizationError, match="DESCRIBE on the group"):
            await shown(cluster, pending_of=GROUP)


async def test_partition_without_leader_is_an_error_beside_the_letters(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaderless(request: Any, answer: Any) -> None:
        for topic in answer.topics:
            for part in topic.partitions:
                if part.partition_index == 1:
                    part.leader_id = -1

    async with memory_cluster({DEAD: 2}) as cluster:
        write(cluster, b"a")
        edit_answers(monkeypatch, Api.METADATA, leaderless)
        result = await results.list_letters(clients_of(cluster), ALL)
        assert result.document["letters"] == 1
        assert [str(error) for error in result.errors] == [f"{DEAD}-1 cannot be read: the partition has no leader"]


async def test_damaged_letters_are_an_error_beside_other_partitions(autojump_clock: MockClock) -> None:
    async with memory_cluster({DEAD: 2, "orders": 1}) as cluster:
        write(cluster, b"a")
        batch = build([(0, None, b"b", ())], base_offset=1, leader_epoch=0)
        cluster.append_raw(DEAD, 0, batch[:-1] + bytes([batch[-1] ^ 1]), 1)
        write(cluster, b"c", partition=1)
        listed = await results.list_letters(clients_of(cluster), ALL)
        assert listed.document["letters"] == 2
        done = await redriven(cluster)
        assert sent(cluster) == [b"a", b"c"]
        for errors in (listed.errors, done.errors):
            (error,) = errors
            assert isinstance(error, RecordError)
            assert f"{DEAD}-0 at offset 1" in str(error)
