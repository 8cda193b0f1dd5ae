"""Pause and resume: a paused claim returns and fetches nothing, and no message is lost or repeated.

Over the in-memory cluster under virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from sarameya import (
    Claim,
    Config,
    ConsumerGroup,
    ConsumerGroupHandler,
    ErrorCode,
    Message,
    OffsetOutOfRangeError,
    Session,
)
from sarameya import TopicPartition as TP
from sarameya.consumer.resets import OUT_OF_RANGE
from sarameya.observe import ClaimCancelled, OffsetReset, PartitionsPaused, PartitionsResumed
from sarameya.protocol.versions import Api
from sarameya.testing import run_inline
from tests.consumer.kit import Fetches, edit_answers, watch_fetches
from tests.group.kit import Recorder, claim_failure, committed, deadline, eventually, fill, orders, start_member

ZERO, ONE = TP("orders", 0), TP("orders", 1)


class Reader(ConsumerGroupHandler):
    """A handler that reads and marks messages or batches. It checks that paused claims return none.

    `on_step` is called with the session and the claim after each message or batch.
    """

    def __init__(self, *, by_batch: bool, on_step: Callable[[Session, Claim], None] = lambda session, claim: None):
        self.taken: dict[int, list[int]] = {}
        self.claims: dict[int, Claim] = {}
        self.session: Session | None = None
        self._by_batch = by_batch
        self._on_step = on_step

    async def setup(self, session: Session) -> None:
        self.session = session

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self.claims[claim.partition] = claim
        async for item in claim.batches() if self._by_batch else claim:
            assert not claim.is_paused
            assert claim.topic_partition not in session.paused
            messages: list[Message] = [item] if isinstance(item, Message) else list(item)
            self.taken.setdefault(claim.partition, []).extend(message.offset for message in messages)
            for message in messages:
                session.mark_message(message)
            self._on_step(session, claim)


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> Fetches:
    return watch_fetches(monkeypatch)


# -- delivery ---------------------------------------------------------------------------------------------


async def test_paused_claim_returns_nothing_more_of_its_batch(autojump_clock: MockClock) -> None:
    def pause_at_three(session: Session, claim: Claim) -> None:
        if claim.position == 4:
            session.pause([claim.topic_partition])

    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        handler = Reader(by_batch=False, on_step=pause_at_three)
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(60)
        assert handler.taken == {0: [0, 1, 2, 3]}
        assert handler.claims[0].is_paused
        assert handler.claims[0].position == 4
        assert committed(cluster) == {"orders-0": 4}
        member.group.resume([ZERO])
        assert not handler.claims[0].is_paused
        assert handler.claims[0].position == 4
        await eventually(lambda: handler.taken == {0: list(range(10))})


async def test_paused_claim_returns_no_more_of_the_fetched_batches(autojump_clock: MockClock) -> None:
    def pause(session: Session, claim: Claim) -> None:
        session.pause([claim.topic_partition])

    async with orders() as cluster, deadline() as nursery:
        for _ in range(4):
            cluster.produce_many("orders", 0, [(None, b"x")] * 4000)  # so large that it is not joined with others
        handler = Reader(by_batch=True, on_step=pause)
        member = await start_member(nursery, cluster, handler)
        for batches in (1, 2, 3, 4):
            await trio.sleep(60)
            assert handler.taken == {0: list(range(4000 * batches))}
            assert handler.claims[0].position == 4000 * batches
            member.group.resume([ZERO])


async def test_rest_of_a_batch_is_returned_whole_after_the_resume(autojump_clock: MockClock) -> None:
    taken: list[object] = []

    class Both(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                taken.append(message.offset)
                if message.offset == 2:
                    break
            session.pause([claim.topic_partition])
            async for batch in claim.batches():
                offsets = [message.offset for message in batch]
                taken.append(offsets)

    async with orders() as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 6)
        member = await start_member(nursery, cluster, Both())
        await trio.sleep(60)
        assert taken == [0, 1, 2]
        member.group.resume_all()
        await eventually(lambda: len(taken) == 4)
        assert taken == [0, 1, 2, [3, 4, 5]]


async def test_claim_paused_while_waiting_gets_no_new_messages(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Reader(by_batch=False)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: len(handler.claims) == 2)
        await trio.sleep(0.2)  # the fetch of both is pending
        member.group.pause([ZERO])
        fill(cluster, 3, 0)
        fill(cluster, 3, 1)
        await trio.sleep(60)
        assert handler.taken == {1: [0, 1, 2]}
        assert handler.claims[0].position == 0
        member.group.resume([ZERO])
        await eventually(lambda: handler.taken == {0: [0, 1, 2], 1: [0, 1, 2]})


async def test_cancelled_read_of_a_paused_claim_takes_nothing(autojump_clock: MockClock) -> None:
    taken: list[int] = []

    class Patient(ConsumerGroupHandler):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            messages = aiter(claim)
            while not claim.has_ended:
                with trio.move_on_after(0.3):
                    taken.append((await anext(messages)).offset)

    async with orders() as cluster, deadline() as nursery:
        member = await start_member(nursery, cluster, Patient())
        for number in range(10):
            member.group.pause([ZERO])
            fill(cluster, 2)
            await trio.sleep(1.0)
            assert taken == list(range(2 * number))
            member.group.resume([ZERO])
            await trio.sleep(1.0)
        assert taken == list(range(20))


# -- fetching ---------------------------------------------------------------------------------------------


async def test_nothing_is_fetched_in_an_hour_with_everything_paused(
    autojump_clock: MockClock, fetches: Fetches
) -> None:
    async with orders(4, brokers=2) as cluster, deadline(7200) as nursery:
        for partition in range(4):
            fill(cluster, 5, partition)
        handler = Reader(by_batch=False)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: handler.taken == {p: [0, 1, 2, 3, 4] for p in range(4)})
        member.group.pause_all()
        await trio.sleep(2)  # the pending fetch is answered
        before = len(fetches.seen)
        for partition in range(4):
            fill(cluster, 5, partition)
        await trio.sleep(3600)
        assert len(fetches.seen) == before
        member.group.resume_all()
        await trio.sleep(0.5)
        assert handler.taken == {p: list(range(10)) for p in range(4)}, "all are read at once"
        assert len(fetches.seen) > before


async def test_group_paused_before_it_consumes_fetches_nothing(autojump_clock: MockClock, fetches: Fetches) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 3, 0)
        handler = Reader(by_batch=True)
        config = Config(offset_initial="oldest")
        group = ConsumerGroup(cluster.bootstrap_servers, "g", config, transport=cluster.transport, run_sync=run_inline)
        group.pause([ZERO, ONE])
        async with group:
            nursery.start_soon(group.consume, ["orders"], handler)
            await trio.sleep(60)
            assert {p: claim.is_paused for p, claim in handler.claims.items()} == {0: True, 1: True}
            assert fetches.seen == []
            group.resume([ZERO])
            await eventually(lambda: handler.taken == {0: [0, 1, 2]})
            assert set(fetches.wanted) == {frozenset({0})}
            await group.close()


async def test_paused_partition_is_not_fetched_and_others_are(autojump_clock: MockClock, fetches: Fetches) -> None:
    """Fetches do not wait for its full buffer either, although `max_processing_time` is long."""

    async def wait_and_pause(session: Session, claim: Claim, message: Message) -> None:
        if message.topic_partition == ZERO:
            await trio.sleep(1)  # meanwhile its buffer is filled
            session.pause([ZERO])

    async with orders(2) as cluster, deadline() as nursery:
        for _ in range(20):
            cluster.produce("orders", 0, b"x" * 1000)
        handler = Recorder(wait_and_pause)
        member = await start_member(
            nursery, cluster, handler, fetch_max_partition_bytes=1500, fetch_max_wait=10.0, max_processing_time=200.0
        )
        await eventually(lambda: ZERO in member.group.paused)
        fetches.clear()
        await trio.sleep(60)
        assert set(fetches.wanted) == {frozenset({1})}
        assert {body.max_wait_ms for _, body in fetches.seen} == {10_000}
        assert len(fetches.seen) in (5, 6), "long polls, one after the other"
        member.group.pause([ONE])
        for number in range(2, 21):
            await trio.sleep(11)
            assert handler.offsets("orders", 0) == list(range(number - 1))
            member.group.resume([ZERO])


async def test_resumed_partition_is_fetched_at_once(
    autojump_clock: MockClock,
) -> None:
    async def dawdle(session: Session, claim: Claim, message: Message) -> None:
        if message.topic_partition == ZERO:
            await trio.sleep(10)

    async with orders(2) as cluster, deadline() as nursery:
        handler = Recorder(dawdle)
        member = await start_member(
            nursery, cluster, handler, fetch_max_partition_bytes=500, max_processing_time=1000.0
        )
        await handler.until(lambda: len(handler.sessions) == 1)
        await trio.sleep(5)
        member.group.pause([ONE])  # the last fetch has found it empty
        fill(cluster, 100, 0)
        await trio.sleep(5)
        fill(cluster, 1, 1)
        member.group.resume([ONE])
        await trio.sleep(0.1)
        assert handler.offsets("orders", 1) == [0]


async def test_leader_moved_during_a_pause_is_found_after_resume(autojump_clock: MockClock) -> None:
    async with orders(1, brokers=3) as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = Reader(by_batch=False)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: handler.taken == {0: [0, 1, 2]})
        member.group.pause([ZERO])
        await trio.sleep(10)
        cluster.move_leader("orders", 0, 2)
        cluster.disconnect()
        fill(cluster, 3)
        await trio.sleep(300)
        member.group.resume([ZERO])
        await eventually(lambda: handler.taken == {0: list(range(6))})


# -- errors -----------------------------------------------------------------------------------------------


async def test_error_during_a_pause_is_raised_after_resume(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = False

    def refuse(_: object, answer: Any) -> None:
        for part in answer.responses[0].partitions if refused else ():
            part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    edit_answers(monkeypatch, Api.FETCH, refuse)
    async with orders() as cluster, deadline() as nursery:
        handler = Reader(by_batch=False)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: bool(handler.claims))
        await trio.sleep(0.2)  # a fetch is pending, and the claim waits
        member.group.pause([ZERO])
        refused = True
        await trio.sleep(60)
        assert not member.ended.is_set()
        member.group.resume([ZERO])
        await member.ended.wait()
        assert "grant this principal READ" in str(claim_failure(member))


async def test_undecodable_batch_fails_after_the_resume(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline() as nursery:
        handler = Reader(by_batch=False)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: bool(handler.claims))
        await trio.sleep(0.2)
        member.group.pause([ZERO])
        cluster.append_raw("orders", 0, b"\x00" * 16 + b"\x02" + b"\x00" * 100, 0)
        await trio.sleep(60)
        assert not member.ended.is_set()
        member.group.resume([ZERO])
        await member.ended.wait()
        assert claim_failure(member)


@pytest.mark.parametrize("policy", ["fail", "oldest"])
async def test_records_expired_during_a_pause_meet_the_policy(autojump_clock: MockClock, policy: str) -> None:
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = Reader(by_batch=False)
        member = await start_member(nursery, cluster, handler, offset_out_of_range=policy)
        await eventually(lambda: handler.taken == {0: [0, 1, 2]})
        member.group.pause([ZERO])
        await trio.sleep(1)
        fill(cluster, 7)
        cluster.delete_records("orders", 0, 6)
        await trio.sleep(60)
        assert not member.ended.is_set()
        assert member.seen(OffsetReset) == []
        member.group.resume([ZERO])
        if policy == "fail":
            await member.ended.wait()
            assert isinstance(claim_failure(member), OffsetOutOfRangeError)
        else:
            await eventually(lambda: handler.taken == {0: [0, 1, 2, 6, 7, 8, 9]})
            assert member.seen(OffsetReset) == [OffsetReset(ZERO, 3, 6, "oldest", OUT_OF_RANGE, 6, 10, 3)]


# -- sessions and rebalances --------------------------------------------------------------------------------


async def test_pause_outlives_its_session_and_the_consume_call(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: len(handler.sessions) == 1)
        handler.sessions[0].pause([ZERO])
        handler.sessions[0].end("the test wants another one")
        await handler.until(lambda: len(handler.sessions) == 2)
        fill(cluster, 3, 0)
        fill(cluster, 3, 1)
        await handler.received(3)
        await trio.sleep(60)
        assert {m.partition for m in handler.messages} == {1}
        member.group.resume([ZERO])
        await handler.received(6)
        assert handler.offsets("orders", 0) == [0, 1, 2]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_pause_is_kept_through_rebalances(autojump_clock: MockClock, strategy: str) -> None:
    """The first member pauses four partitions by name, the second one pauses all. Then the second one leaves."""
    async with orders(4) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one, rebalance_strategies=(strategy,))
        await one.until(lambda: len(one.sessions) == 1)
        first.group.pause([TP("orders", number) for number in range(4)])
        second = await start_member(nursery, cluster, two, rebalance_strategies=(strategy,))
        second.group.pause_all()
        await eventually(lambda: two.sessions != [] and len(two.sessions[-1].claims.get("orders", ())) == 2)
        await eventually(lambda: len(one.sessions[-1].claims.get("orders", ())) == 2)
        for partition in range(4):
            fill(cluster, 3, partition)
        await trio.sleep(60)
        assert one.messages + two.messages == []
        others = two.sessions[-1].claims["orders"]
        await second.close()
        await eventually(lambda: len(one.sessions[-1].claims["orders"]) == 4)
        await trio.sleep(60)
        assert one.messages == []
        first.group.resume([TP("orders", others[0])])
        await one.received(3)
        await trio.sleep(60)
        assert {m.partition for m in one.messages} == {others[0]}
        first.group.resume_all()
        await one.received(12)
        assert all(one.offsets("orders", partition) == [0, 1, 2] for partition in range(4))


async def test_pause_all_covers_partitions_assigned_later(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        one, two = Recorder(), Recorder()
        first = await start_member(nursery, cluster, one)
        second = await start_member(nursery, cluster, two)
        await eventually(lambda: two.sessions != [] and len(one.sessions[-1].claims.get("orders", ())) == 1)
        first.group.pause_all()
        resumed = TP("orders", one.sessions[-1].claims["orders"][0])
        first.group.resume([resumed])
        await second.close()
        await eventually(lambda: one.sessions[-1].claims == {"orders": (0, 1)})
        fill(cluster, 3, 0)
        fill(cluster, 3, 1)
        await trio.sleep(60)
        assert {m.topic_partition for m in one.messages} == {resumed}, "only the partition that was resumed by name"
        cluster.add_partitions("orders", 3)
        fill(cluster, 3, 2)
        await eventually(lambda: one.sessions[-1].claims == {"orders": (0, 1, 2)})
        await trio.sleep(60)
        assert {m.topic_partition for m in one.messages} == {resumed}
        first.group.resume_all()
        await one.received(9)


async def test_paused_claim_ends_with_its_session_without_a_delay(autojump_clock: MockClock) -> None:
    def pause_at_three(session: Session, claim: Claim) -> None:
        if claim.position == 4:
            session.pause_all()

    async with orders(2) as cluster, deadline() as nursery:
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)
        handler = Reader(by_batch=False, on_step=pause_at_three)
        member = await start_member(nursery, cluster, handler)
        await eventually(lambda: handler.taken == {0: [0, 1, 2, 3]})
        await trio.sleep(60)
        began = trio.current_time()
        await member.close()
        assert trio.current_time() - began < 1.0
        assert member.seen(ClaimCancelled) == []
        assert member.error is None
        assert committed(cluster)["orders-0"] == 4
        member.group.resume_all()
        assert handler.claims[0].position == 4, "a stopped claim does not change"


async def test_pause_and_resume_are_reported_and_visible(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        handler = Recorder()
        member = await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        session = handler.sessions[0]
        session.pause([ZERO])
        assert ZERO in member.group.paused
        assert ONE not in session.paused
        session.pause_all()
        session.resume([ONE])
        assert (ZERO in session.paused, ONE in session.paused) == (True, False)
        session.resume_all()
        assert not session.paused
        assert [e for e in member.events if isinstance(e, PartitionsPaused | PartitionsResumed)] == [
            PartitionsPaused("g", (ZERO,), everything=False),
            PartitionsPaused("g", (), everything=True),
            PartitionsResumed("g", (ONE,), everything=False),
            PartitionsResumed("g", (), everything=True),
        ]


# -- random steps ---------------------------------------------------------------------------------------------

_SOME = st.frozensets(st.sampled_from([TP("orders", number) for number in range(3)]), min_size=1)
_STEP = st.one_of(
    st.tuples(st.just("produce"), st.tuples(st.integers(0, 2), st.integers(1, 12))),
    st.tuples(st.sampled_from(["pause", "resume"]), _SOME),
    st.tuples(st.sampled_from(["pause_all", "resume_all", "disconnect", "end"]), st.none()),
    st.tuples(st.just("move"), st.tuples(st.integers(0, 2), st.integers(0, 1))),
    st.tuples(st.just("sleep"), st.sampled_from([0.01, 0.3, 2.0])),
)


@settings(max_examples=80)
@given(st.lists(_STEP, max_size=40), st.booleans())
def test_pauses_lose_and_repeat_nothing(steps: list[tuple[str, Any]], by_batch: bool) -> None:
    async def main() -> None:
        handler = Reader(by_batch=by_batch)
        async with orders(3, brokers=2) as cluster, deadline() as nursery:
            member = await start_member(nursery, cluster, handler, fetch_max_partition_bytes=200)
            counts = [0, 0, 0]
            for what, argument in steps:
                match what:
                    case "produce":
                        partition, count = argument
                        cluster.produce_many("orders", partition, [(None, b"x" * 20)] * count, batch_bytes=60)
                        counts[partition] += count
                    case "pause" | "resume":
                        getattr(member.group, what)(argument)
                    case "pause_all" | "resume_all":
                        getattr(member.group, what)()
                    case "disconnect":
                        cluster.disconnect()
                    case "end" if handler.session is not None:
                        handler.session.end("the test wants it")
                    case "move":
                        cluster.move_leader("orders", *argument)
                    case "sleep":
                        await trio.sleep(argument)
            member.group.resume_all()
            expected = {p: list(range(count)) for p, count in enumerate(counts) if count}
            await eventually(lambda: handler.taken == expected or member.ended.is_set())
            assert member.error is None
            await member.close()

    trio.run(main, clock=MockClock(autojump_threshold=0))
