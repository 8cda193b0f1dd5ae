"""Other tasks run on time while a handler has as many buffered messages as it can take.

Tests that really compute run in real time. Those of the time that claims share (`HandlerTime`) run in virtual time:
`MockClock.jump` advances the clock as a call that blocks the loop would.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable
from functools import partial
from itertools import pairwise
from unittest.mock import Mock

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from sarameya import CommittedOffset, Config, Session, StreamHandler
from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.group import claim as claim_module
from sarameya.group import stream as stream_module
from sarameya.group.claim import Claim
from sarameya.group.delivery import time_slices
from sarameya.group.delivery.time_slices import HandlerTime, TimeSlice
from sarameya.group.session_machine.partition_start import PartitionStarter
from sarameya.group.stream import Stream
from sarameya.model import Message, TopicPartition
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.fetch.fetch_cursor import FetchCursor, Records
from sarameya.protocol.records.batch_codec import build, split
from tests.group.kit import Recorder, deadline, fill, orders, start_member

Feed = Claim | Stream


def full_claim(batches: int, messages: int, number: int = 0, handler_time: HandlerTime | None = None) -> Claim:
    """Return a claim with `batches` buffered record batches of `messages` messages each."""
    partition = TopicPartition("orders", number)
    consumer = PartitionConsumer(FetchCursor(partition, 0), 10, ByteBudget(2**30).open())
    claim = Claim(consumer, Config(), None, handler_time)
    data = b"".join(
        build([(0, None, b"x" * 50, ())] * messages, base_offset=number * messages) for number in range(batches)
    )
    consumer.deliver(Records(tuple(split(data, partition, 0)), len(data), 0))
    return claim


def full_stream(partitions: int, batches: int, messages: int) -> Stream:
    """Return a stream with the same buffered batches, spread over several partitions."""
    stream = Stream(0, lambda claim: None)
    for number in range(partitions):
        stream._add(full_claim(batches // partitions, messages, number))
    return stream


FEEDS = {
    "claim": full_claim,
    "stream": partial(full_stream, 1),
    "stream of two": partial(full_stream, 2),
}
each_feed = pytest.mark.parametrize("make_feed", FEEDS.values(), ids=FEEDS.keys())


async def gaps_of_another_task(feed: AsyncIterable[Message], total: int, seconds_a_message: float) -> list[float]:
    """Return the times between two steps of another task, while `total` messages are read and computed on."""
    gaps: list[float] = []

    async def others() -> None:
        last = time.perf_counter()
        while True:
            await trio.lowlevel.checkpoint()
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        taken = 0
        async for _ in feed:
            if seconds_a_message:
                until = time.perf_counter() + seconds_a_message
                while time.perf_counter() < until:
                    pass
            taken += 1
            if taken == total:
                break
        nursery.cancel_scope.cancel()
    return gaps


@each_feed
async def test_about_a_thousand_messages_pass_between_checkpoints(
    make_feed: Callable[[int, int], Feed],
) -> None:
    for batches in (2, 20_000 // 50):
        gaps = await gaps_of_another_task(make_feed(batches, 20_000 // batches), 20_000, 0.0)
        # The first and the last of 20 slices may be missed; a busy machine makes them shorter.
        assert 18 <= len(gaps) <= 200


@each_feed
async def test_batches_have_a_checkpoint_after_a_thousand_messages(
    make_feed: Callable[[int, int], Feed],
) -> None:
    class Steps(trio.abc.Instrument):
        count = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.count += task is me

    me, steps = trio.lowlevel.current_task(), Steps()
    trio.lowlevel.add_instrument(steps)
    taken = since = seen = 0
    async for batch in make_feed(10, 10_000).batches():
        if steps.count != seen:
            seen, since = steps.count, 0
        assert since <= 1000
        since += len(batch)
        taken += len(batch)
        if taken == 100_000:
            break
    trio.lowlevel.remove_instrument(steps)


@pytest.mark.parametrize("seconds_a_message", [0.0005, 0.005])
async def test_slow_handler_yields_after_each_message(
    seconds_a_message: float,
) -> None:
    total = int(1.0 / seconds_a_message)
    gaps = await gaps_of_another_task(full_claim(1, total), total, seconds_a_message)
    # The first slices adapt to the handler. The machine may be busy, so only the median is compared with the bound.
    settled = sorted(gaps[3:])
    assert settled[len(settled) // 2] < max(0.03, 4 * seconds_a_message)


async def test_handler_becoming_slow_in_its_slice_yields() -> None:
    claim = full_claim(1, 6000)
    gaps: list[float] = []

    async def others() -> None:
        while True:
            before = time.perf_counter()
            await trio.lowlevel.checkpoint()
            gaps.append(time.perf_counter() - before)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        async for message in claim:
            if message.offset >= 5200:  # in the middle of a time slice, which started at about 5,000
                until = time.perf_counter() + 0.001
                while time.perf_counter() < until:
                    pass
            if message.offset == 5999:
                break
        nursery.cancel_scope.cancel()
    assert max(gaps) < 0.4, "of 800 ms in total"


# -- the time that all claims of a member share ------------------------------------------------------


@pytest.fixture
def one_clock(monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock) -> None:
    """Make the real clock of time slices show the virtual time."""
    for module in (claim_module, stream_module, time_slices):
        monkeypatch.setattr(module, "perf_counter", mock_clock.current_time)


class Passes(trio.abc.Instrument):
    """An instrument that records the duration of each pass of the scheduler, in virtual seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._began = 0.0

    def after_io_wait(self, timeout: float) -> None:
        self._began = trio.current_time()

    def before_io_wait(self, timeout: float) -> None:
        self.seconds.append(trio.current_time() - self._began)


@pytest.fixture
async def passes() -> AsyncIterator[Passes]:
    watch = Passes()
    trio.lowlevel.add_instrument(watch)
    yield watch
    trio.lowlevel.remove_instrument(watch)


async def beat(times: list[float]) -> None:
    """Record the time after each five passes, which a heartbeat and its response need."""
    while True:
        for _ in range(5):
            await trio.lowlevel.checkpoint()
        times.append(trio.current_time())


@pytest.mark.parametrize("count", [16, 200])
async def test_fault_41_blocking_claims_yield_after_each_message(
    mock_clock: MockClock, one_clock: None, passes: Passes, count: int
) -> None:
    handler_time, taken, beats = HandlerTime(), list[int](), list[float]()

    async def read(number: int) -> None:
        async for _ in full_claim(1, 100, number, handler_time):
            mock_clock.jump(0.1)
            taken.append(number)

    with handler_time.measured():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat, beats)
            for number in range(count):
                nursery.start_soon(read, number)
            while len(taken) < 2 * count:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert max(passes.seconds) == pytest.approx(0.1)
    assert max(after - before for before, after in pairwise(beats)) == pytest.approx(0.1)
    assert sorted(taken[:count]) == [*range(count)], "each claim has read one message before any has read two"


async def test_fault_41_claim_becoming_slow_yields(mock_clock: MockClock, one_clock: None, passes: Passes) -> None:
    handler_time, taken = HandlerTime(), 0

    async def read(number: int) -> None:
        nonlocal taken
        async for _ in full_claim(4, 1000, number, handler_time):
            taken += 1
            if taken > 10_000:
                mock_clock.jump(0.1)

    with handler_time.measured():
        async with trio.open_nursery() as nursery:
            for number in range(16):
                nursery.start_soon(read, number)
            while taken < 10_100:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert max(passes.seconds) == pytest.approx(0.1)


async def test_fault_41_blocking_claims_hold_fewer_messages(
    mock_clock: MockClock, one_clock: None, passes: Passes
) -> None:
    """All claims may wake in one pass, which then takes as long as all of them block."""
    handler_time, taken = HandlerTime(overload=0.5), 0
    wake = trio.Event()

    async def read(number: int) -> None:
        nonlocal taken
        async for _ in full_claim(1, 100, number, handler_time):
            await wake.wait()
            mock_clock.jump(0.1)
            taken += 1

    async def wake_all() -> None:
        nonlocal wake
        while True:
            for _ in range(50):
                await trio.lowlevel.checkpoint()
            wake.set()
            wake = trio.Event()

    with handler_time.measured():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wake_all)
            for number in range(100):
                nursery.start_soon(read, number)
            while taken < 200:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    long = [seconds for seconds in passes.seconds if seconds > 0.05]
    assert long[0] == pytest.approx(3.2), "32 claims in the first pass"
    assert max(long[1:]) < 0.9


async def test_limit_grows_again_after_an_overloaded_pass(autojump_clock: MockClock) -> None:
    handler_time = HandlerTime(overload=0.5)
    slices = [TimeSlice(handler_time) for _ in range(100)]
    with handler_time.measured():
        await trio.lowlevel.checkpoint()
        slices[0].hold_messages()
        autojump_clock.jump(5.0)
        slices[0].release_messages()
        began = trio.current_time()
        for each in slices:  # one more each time, while all earlier ones keep their messages
            assert await each.wait()
            each.hold_messages()
        assert 5 < trio.current_time() - began < 20


async def test_quick_tasks_that_wait_start_many_in_a_pass(
    mock_clock: MockClock, one_clock: None, passes: Passes
) -> None:
    handler_time, started = HandlerTime(), 0

    async def start() -> None:
        nonlocal started
        await TimeSlice(handler_time).wait()
        started += 1

    with handler_time.measured():
        async with trio.open_nursery() as nursery:
            for _ in range(1000):
                nursery.start_soon(start)
    assert started == 1000
    assert len(passes.seconds) < 30


async def test_quick_tasks_do_not_make_each_other_wait(mock_clock: MockClock, one_clock: None) -> None:
    """The queue of a busy member would never be empty if each new task waited for the earlier ones."""
    handler_time = HandlerTime()
    with handler_time.measured():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(TimeSlice(handler_time).wait)
            await trio.lowlevel.checkpoint()
            assert handler_time.is_free(trio.current_time()), "the only task in the queue is woken, and starts now"
            mock_clock.jump(0.1)
            await trio.lowlevel.checkpoint()
            assert not handler_time.is_free(trio.current_time()), "after a long pass it waits, and is the first"


@pytest.mark.parametrize("readers", [1, 3])
async def test_claim_ended_while_it_is_queued_ends_at_once(
    mock_clock: MockClock, one_clock: None, readers: int
) -> None:
    """A rebalance waits only for claims whose handler has messages, however many tasks read a claim."""
    handler_time = HandlerTime(overload=0.5)
    hung, waiting = full_claim(1, 100, 0, handler_time), full_claim(1, 100, 1, handler_time)
    ended = list[int]()

    async def hang() -> None:
        async for _ in hung:
            mock_clock.jump(5.0)  # so that only one claim at a time gets messages
            await trio.sleep_forever()

    async def wait(number: int) -> None:
        async for _ in waiting:
            raise AssertionError("it gets no message while the other claim has some")
        ended.append(number)

    with handler_time.measured():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang)
            await trio.testing.wait_all_tasks_blocked()
            for number in range(readers):
                nursery.start_soon(wait, number)
            await trio.testing.wait_all_tasks_blocked()
            waiting._end()
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(ended) == [*range(readers)]
            assert handler_time._queue == {}
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("count", "timeout"), [(16, 1.0), (200, 5.0)])
async def test_reader_with_a_timeout_keeps_its_place_in_the_queue(
    mock_clock: MockClock, one_clock: None, count: int, timeout: float
) -> None:
    """The whole queue takes longer than one timeout."""
    handler_time, taken = HandlerTime(overload=0.5), Counter[int]()

    async def read(number: int) -> None:
        messages = aiter(full_claim(1, 400, number, handler_time))
        while True:
            with trio.move_on_after(timeout):
                await anext(messages)
                mock_clock.jump(0.1)
                taken[number] += 1

    with handler_time.measured():
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(read, number)
            while taken.total() < 6 * count:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert [number for number in range(count) if taken[number] < 3] == []


async def test_tasks_that_share_a_time_slice_all_start(mock_clock: MockClock, one_clock: None) -> None:
    handler_time, started = HandlerTime(), list[str]()
    shared, other = TimeSlice(handler_time), TimeSlice(handler_time)

    async def wait(one: TimeSlice, name: str) -> None:
        assert await one.wait()
        started.append(name)

    with handler_time.measured():
        async with trio.open_nursery() as nursery:
            for one, name in ((shared, "first"), (other, "other"), (shared, "second"), (other, "again")):
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await one.wait()  # all of them have been in the queue before
                nursery.start_soon(wait, one, name)
    assert sorted(started) == ["again", "first", "other", "second"]
    assert handler_time._queue == {}
    assert handler_time.is_free(trio.current_time())


async def test_jump_of_the_virtual_clock_is_no_overload(autojump_clock: MockClock) -> None:
    handler_time = HandlerTime(overload=0.5)
    with handler_time.measured():
        handler_time.add_holder()
        await trio.sleep(60)
        began = trio.current_time()
        assert handler_time.is_free(began)
        assert await TimeSlice(handler_time).wait()
        assert trio.current_time() == began


async def test_cancelled_start_leaves_the_queue(mock_clock: MockClock) -> None:
    handler_time, surroundings = HandlerTime(), Mock()
    surroundings.handler_time = handler_time
    for _ in range(100):
        handler_time.add_holder()  # more than may have messages at a time
    starter = PartitionStarter(surroundings, Mock(), Mock(), Recorder(), Mock(), Mock())
    batch = starter.prepare({TopicPartition("orders", 0): None})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(starter.start, batch)
        await trio.testing.wait_all_tasks_blocked()
        assert len(handler_time._queue) == 1
        nursery.cancel_scope.cancel()
    assert handler_time._queue == {}


class BlocksAtStart(Recorder):
    """A handler that blocks once for each partition, before its first message."""

    def __init__(self, clock: MockClock, where: str) -> None:
        super().__init__()
        self._clock = clock
        self._where = where

    async def start_offset(self, partition: TopicPartition, committed: CommittedOffset | None) -> None:
        if self._where == "start_offset":
            self._clock.jump(0.1)

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        if self._where == "consume_claim":
            self._clock.jump(0.1)
        await super().consume_claim(session, claim)


class BlocksAtStartOfStreams(BlocksAtStart, StreamHandler):
    streams = 200

    async def consume_stream(self, session: Session, stream: Stream) -> None:
        self._clock.jump(0.1)
        async for message in stream:
            self.messages.append(message)
            self._note(None)


@pytest.mark.parametrize("where", ["start_offset", "consume_claim", "consume_stream"])
async def test_fault_41_handler_blocking_before_its_first_message_yields(
    autojump_clock: MockClock, passes: Passes, where: str
) -> None:
    kind = BlocksAtStartOfStreams if where == "consume_stream" else BlocksAtStart
    handler = kind(autojump_clock, where)
    async with orders(200) as cluster, deadline() as nursery:
        for number in range(200):
            fill(cluster, 1, number)
        await start_member(nursery, cluster, handler)
        await handler.received(200)
    assert max(passes.seconds) < 0.15


@pytest.mark.parametrize("as_stream", [False, True], ids=["claims", "streams"])
async def test_fault_41_claims_woken_together_yield_after_each_message(
    mock_clock: MockClock, one_clock: None, passes: Passes, as_stream: bool
) -> None:
    """The first fetch of a session brings messages of all partitions at once."""
    handler_time, taken = HandlerTime(), 0
    feeds = list[Feed]()
    consumers = list[PartitionConsumer]()
    for number in range(16):
        partition = TopicPartition("orders", number)
        consumer = PartitionConsumer(FetchCursor(partition, 0), 10, ByteBudget(2**30).open())
        claim = Claim(consumer, Config(), None, handler_time)
        consumers.append(consumer)
        if as_stream:
            stream = Stream(number, lambda claim: None, handler_time)
            stream._add(claim)
        feeds.append(stream if as_stream else claim)

    async def read(feed: Feed) -> None:
        nonlocal taken
        async for _ in feed:
            mock_clock.jump(0.1)
            taken += 1

    with handler_time.measured():
        async with trio.open_nursery() as nursery:
            for feed in feeds:
                nursery.start_soon(read, feed)
            await trio.testing.wait_all_tasks_blocked()
            data = build([(0, None, b"x", ())] * 5, base_offset=0)
            for consumer in consumers:
                consumer.deliver(Records(tuple(split(data, consumer.partition, 0)), len(data), 0))
            while taken < 16 * 5:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert max(passes.seconds) == pytest.approx(0.1)


async def test_time_without_a_processor_counts_for_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other programs may keep the thread from running. That is not the handlers' time, unless one of them blocks."""
    usage = 0.0, 0
    monkeypatch.setattr(time_slices, "_usage", lambda: usage)
    handler_time = HandlerTime()
    handler_time.after_io_wait(0.0)
    later = trio.current_time() + 1.0
    assert handler_time.is_free(later)
    usage = 0.5, 0
    assert not handler_time.is_free(later), "it has worked"
    usage = 0.0, 1
    assert not handler_time.is_free(later), "it was blocked"


def test_usage_distinguishes_work_from_a_block() -> None:
    before = time_slices._usage()
    sum(range(2_000_000))
    worked = time_slices._usage()
    assert worked[0] > before[0]
    time.sleep(0.01)
    assert time_slices._usage()[1] > worked[1]
