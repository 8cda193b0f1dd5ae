"""The circuit breaker pauses messages during an outage of a dependency, instead of dead-lettering all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio
from trio.testing import MockClock

from sarameya import BatchHandler, CircuitBreaker, ConfigError, DeadLetterTopic, Message, MessageHandler, Retry
from sarameya.testing import ClaimFeed


class Outage(MessageHandler):
    """A handler that fails until the time `ends`, and for messages with the value `bad`."""

    ordering = "none"
    concurrency = 5
    dead_letters = DeadLetterTopic()
    circuit_breaker = CircuitBreaker(failures=3, pause=60)

    def __init__(self, ends: float) -> None:
        self.ends = ends
        self.calls: list[float] = []
        self.handled: list[int] = []

    async def handle(self, message: Message) -> None:
        now = trio.current_time()
        self.calls.append(now)
        await trio.sleep(0.1)
        if now < self.ends or message.value == b"bad":
            raise OSError("down")
        self.handled.append(message.offset)


def feed_of(*values: bytes) -> ClaimFeed:
    feed = ClaimFeed("orders")
    for value in values:
        feed.send(value)
    feed.end()
    return feed


async def test_outage_is_probed_until_it_ends(autojump_clock: MockClock) -> None:
    handler, feed = Outage(ends=trio.current_time() + 600), feed_of(*[b""] * 20)
    await feed.run(handler)
    lost = {message.headers for message in feed.sent}
    assert len(feed.sent) == len(lost) == 2, "only the failures that open the circuit become letters"
    assert len(handler.handled) == 18
    assert feed.committed == 20
    probes = [call for call in handler.calls if call < handler.ends][5:]
    assert 9 <= len(probes) <= 10
    assert all(later - earlier >= 60 for earlier, later in pairwise(probes))


async def test_single_failures_do_not_open_the_circuit(autojump_clock: MockClock) -> None:
    handler, feed = Outage(ends=0), feed_of(*[b"bad", b"good", b"good"] * 5)
    handler.ordering, handler.concurrency = "partition", 1
    began = trio.current_time()
    await feed.run(handler)
    assert len(feed.sent) == 5
    assert trio.current_time() - began < 60


async def test_attempts_in_place_precede_the_circuit(autojump_clock: MockClock) -> None:
    handler, feed = Outage(ends=trio.current_time() + 5), feed_of(*[b""] * 5)
    handler.retry = Retry(attempts=10, backoff=1, backoff_max=2)
    await feed.run(handler)
    assert feed.sent == []
    assert trio.current_time() < handler.ends + 30


async def test_open_circuit_does_not_delay_the_stop_of_the_claim(autojump_clock: MockClock) -> None:
    handler, feed = Outage(ends=float("inf")), ClaimFeed("orders")
    for _ in range(10):
        feed.send(b"")
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, handler)
        await trio.sleep(100)
        stopped = trio.current_time()
        feed.end(now=True)
    assert trio.current_time() - stopped < 1
    feed.end()
    handler.ends = 0
    with trio.fail_after(500):
        await feed.run(handler)
    assert feed.committed == 10


class Batched(BatchHandler):
    """A handler that fails for each batch with a bad message, and for all batches until the time `ends`."""

    batch_size = 5
    batch_age = 1
    dead_letters = DeadLetterTopic()
    circuit_breaker = CircuitBreaker(failures=2, pause=60)

    def __init__(self, ends: float = 0) -> None:
        self.ends = ends

    async def handle_batch(self, messages: Sequence[Message]) -> None:
        await trio.sleep(0.1)
        if trio.current_time() < self.ends or any(message.value == b"bad" for message in messages):
            raise ValueError("bad")


async def test_batches_with_a_bad_message_do_not_open_the_circuit(autojump_clock: MockClock) -> None:
    feed = feed_of(*[b"bad", b"good", b"good", b"good", b"good"] * 5)
    with trio.fail_after(60):
        await feed.run(Batched())
    assert len(feed.sent) == 5
    assert feed.committed == 25


async def test_end_of_an_outage_is_noticed_despite_a_bad_message(autojump_clock: MockClock) -> None:
    handler, feed = Batched(ends=trio.current_time() + 600), feed_of(*[b"good"] * 9, b"bad")
    with trio.fail_after(800):
        await feed.run(handler)
    assert [record.value for record in feed.sent] == [b"good", b"bad"]
    assert feed.committed == 10


@pytest.mark.parametrize("options", [{"failures": 0}, {"pause": 0}, {"pause": "30"}])
def test_invalid_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        CircuitBreaker(**options)  # type: ignore[arg-type]
