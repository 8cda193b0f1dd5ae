"""Answers that no good broker gives: retried with backoff and visibly, never in a hot loop, never waited for ever."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Claim, ConsumerGroupHandler, ErrorCode, Session, TopicAuthorizationError
from sarameya.observe import Retrying
from sarameya.protocol.records.batch_codec import build
from sarameya.protocol.versions import Api
from tests.consumer.kit import edit_answers
from tests.group.kit import Recorder, Running, deadline, fill, orders, start_member


def retries(member: Running, what: str) -> list[str]:
    return [event.cause for event in member.seen(Retrying) if event.what == what]


# -- Fetch --------------------------------------------------------------------------------------------------


async def test_partition_missing_in_responses_is_retried_with_backoff(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave_out(request: Any, answer: Any) -> None:
        if trio.current_time() - began < 10:
            answer.session_id = 0  # in a fetch session silence would mean that nothing has changed
            for topic in answer.responses:
                topic.partitions = [p for p in topic.partitions if p.partition_index != 0]

    edit_answers(monkeypatch, Api.FETCH, leave_out)
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 3, 0)
        fill(cluster, 3, 1)
        began = trio.current_time()
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(6)
        causes = retries(member, "leader of orders-0")
        assert set(causes) == {"missing in the response to a fetch"}
        assert 5 < len(causes) < 30
        assert not retries(member, "leader of orders-1")


async def test_batches_before_the_position_are_retried_with_backoff(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_the_last_again(request: Any, answer: Any) -> None:
        asked = [p.fetch_offset for topic in request.topics for p in topic.partitions]
        answer.session_id = 0  # so that each request says what it asks for
        if asked == [1] and trio.current_time() - began < 10:
            answer.responses[0].partitions[0].records = build([(0, None, b"x", ())])

    edit_answers(monkeypatch, Api.FETCH, send_the_last_again)
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 2)
        began = trio.current_time()
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, fetch_max_partition_bytes=1)
        await handler.received(2)
        assert handler.offsets("orders", 0) == [0, 1]
        causes = retries(member, "leader of orders-0")
        assert set(causes) == {"the broker sent no batch that reaches offset 1"}
        assert 5 < len(causes) < 30


async def test_broker_naming_itself_as_nearer_is_retried_with_backoff(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prefer_a_replica(request: Any, answer: Any) -> None:
        if request.rack_id and trio.current_time() - began < 10:
            for part in (p for topic in answer.responses for p in topic.partitions):
                part.records, part.preferred_read_replica = b"", 0

    edit_answers(monkeypatch, Api.FETCH, prefer_a_replica)
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 3)
        began = trio.current_time()
        handler = Recorder()
        member = await start_member(nursery, cluster, handler, rack_id="r1")
        await handler.received(3)
        assert 5 < len(retries(member, "leader of orders-0")) < 30


async def test_fetch_refused_as_a_whole_is_told_by_name(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        cluster.fail_next(Api.FETCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(1)
        (cause,) = retries(member, "leader of orders-0")
        assert "FETCH_SESSION_ID_NOT_FOUND" in cause


async def test_handler_that_reads_on_after_an_error_meets_it_again(autojump_clock: MockClock) -> None:
    met: list[Exception] = []

    class ReadsOn(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            while len(met) < 3:
                try:
                    async for _ in claim:
                        pass
                except TopicAuthorizationError as error:
                    met.append(error)
            raise met[-1]

    async with orders() as cluster, deadline() as nursery:
        cluster.fail_next(Api.FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        member = await start_member(nursery, cluster, ReadsOn())
        await member.ended.wait()
        assert len({str(error) for error in met}) == 1


# -- ListOffsets --------------------------------------------------------------------------------------------


def leave_out(answer: Any) -> None:
    for topic in answer.topics:
        topic.partitions = [p for p in topic.partitions if p.partition_index != 1]


def tell_no_offset(answer: Any) -> None:
    for part in (p for topic in answer.topics for p in topic.partitions if p.partition_index == 1):
        part.offset = -1


@pytest.mark.parametrize(
    ("edit", "cause"), [(leave_out, "missing in the response"), (tell_no_offset, "no offset in the response")]
)
async def test_offset_missing_from_the_answer_is_looked_up_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, edit: Any, cause: str
) -> None:
    def until_ten(request: Any, answer: Any) -> None:
        if trio.current_time() - began < 10:
            edit(answer)

    edit_answers(monkeypatch, Api.LIST_OFFSETS, until_ten)
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 3, 0)
        fill(cluster, 3, 1)
        began = trio.current_time()
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(6)
        causes = retries(member, "offset lookup")
        assert set(causes) == {f"orders-1: {cause}"}
        assert 5 < len(causes) < 30


async def test_offset_of_a_partition_not_asked_for_is_ignored(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add_another(request: Any, answer: Any) -> None:
        for topic in answer.topics:
            other = copy.copy(topic.partitions[0])
            other.partition_index = 77
            topic.partitions = [*topic.partitions, other]

    edit_answers(monkeypatch, Api.LIST_OFFSETS, add_another)
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(3)
        assert not member.ended.is_set()
