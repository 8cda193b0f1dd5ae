"""Responses that no correct broker sends: retried with backoff and an event, without a hot loop or an endless wait."""

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
    def omit_partition(request: Any, answer: Any) -> None:
        if trio.current_time() - began < 10:
            answer.session_id = 0  # in a fetch session, an omitted partition is an unchanged one
            for topic in answer.responses:
                topic.partitions = [p for p in topic.partitions if p.partition_index != 0]

    edit_answers(monkeypatch, Api.FETCH, omit_partition)
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
    def resend_the_last_batch(request: Any, answer: Any) -> None:
        offsets = [p.fetch_offset for topic in request.topics for p in topic.partitions]
        answer.session_id = 0  # so that each request names its partitions
        if offsets == [1] and trio.current_time() - began < 10:
            answer.responses[0].partitions[0].records = build([(0, None, b"x", ())])

    edit_answers(monkeypatch, Api.FETCH, resend_the_last_batch)
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


async def test_error_of_a_whole_fetch_is_reported_by_name(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        cluster.fail_next(Api.FETCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.received(1)
        (cause,) = retries(member, "leader of orders-0")
        assert "FETCH_SESSION_ID_NOT_FOUND" in cause


async def test_reading_on_after_an_error_raises_it_again(autojump_clock: MockClock) -> None:
    errors: list[Exception] = []

    class ReadsOn(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            while len(errors) < 3:
                try:
                    async for _ in claim:
                        pass
                except TopicAuthorizationError as error:
                    errors.append(error)
            raise errors[-1]

    async with orders() as cluster, deadline() as nursery:
        cluster.fail_next(Api.FETCH, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        member = await start_member(nursery, cluster, ReadsOn())
        await member.ended.wait()
        assert len({str(error) for error in errors}) == 1


# -- ListOffsets --------------------------------------------------------------------------------------------


def omit_partition(answer: Any) -> None:
    for topic in answer.topics:
        topic.partitions = [p for p in topic.partitions if p.partition_index != 1]


def remove_offset(answer: Any) -> None:
    for part in (p for topic in answer.topics for p in topic.partitions if p.partition_index == 1):
        part.offset = -1


@pytest.mark.parametrize(
    ("edit", "cause"), [(omit_partition, "missing in the response"), (remove_offset, "no offset in the response")]
)
async def test_offset_missing_in_a_response_is_requested_again(
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


async def test_offset_of_an_unrequested_partition_is_ignored(
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
