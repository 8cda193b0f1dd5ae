"""Helpers of the group's tests: a recording handler, a member that runs in a nursery, and faulty transports."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import trio

from sarameya import (
    Assignment,
    Assignor,
    Claim,
    ClaimError,
    CommittedOffset,
    Config,
    ConsumerGroup,
    ConsumerGroupHandler,
    ConsumerInterceptor,
    Event,
    Message,
    Session,
    TopicConfig,
    TopicPartition,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import Observer
from sarameya.protocol.assignors import RangeAssignor
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.versions import Api
from sarameya.testing import run_inline

E = TypeVar("E")
OnMessage = Callable[[Session, Claim, Message], Awaitable[None]]


class Recorder(ConsumerGroupHandler):
    """A handler that marks and keeps every message, and records its calls. `on_message` may do more with a message."""

    def __init__(self, on_message: OnMessage | None = None) -> None:
        self.calls: list[str] = []
        self.messages: list[Message] = []
        self.sessions: list[Session] = []
        self._on_message = on_message
        self._changed = trio.Event()

    async def setup(self, session: Session) -> None:
        self._note("setup")
        self.sessions.append(session)

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        self._note(f"claim {claim.topic_partition}")
        async for message in claim:
            self.messages.append(message)
            if self._on_message is not None:
                await self._on_message(session, claim, message)
            session.mark_message(message)
            self._note(None)
        self._note(f"end {claim.topic_partition}")

    async def cleanup(self, session: Session) -> None:
        self._note("cleanup")

    def _note(self, call: str | None) -> None:
        if call is not None:
            self.calls.append(call)
        self._changed.set()
        self._changed = trio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` is true. It is checked after each call and each message."""
        while not condition():
            await self._changed.wait()

    async def received(self, count: int) -> None:
        await self.until(lambda: len(self.messages) >= count)

    def values(self) -> list[bytes | None]:
        return [m.value for m in self.messages]

    def offsets(self, topic: str, partition: int) -> list[int]:
        return [m.offset for m in self.messages if (m.topic, m.partition) == (topic, partition)]


class OwnAssignor(RangeAssignor):
    """A user's assignor that assigns as `range` does, and sends `user_data`. `received` has its assignments."""

    name = "own"

    def __init__(self, user_data: bytes | None = None) -> None:
        self.received: list[tuple[Assignment, bytes | None, int]] = []
        self._user_data = user_data

    def assignment_user_data(self, member_id: str, assignment: Assignment) -> bytes | None:
        return self._user_data

    def on_assignment(self, assignment: Assignment, user_data: bytes | None, generation: int) -> None:
        self.received.append((assignment, user_data, generation))


@attrs.define(slots=True, eq=False)
class Running:
    """A member that runs in a task. `error` is the exception that its `consume` raised."""

    group: ConsumerGroup
    scope: trio.CancelScope
    events: list[Event]
    ended: trio.Event = attrs.field(factory=trio.Event)
    error: BaseException | None = None

    def seen(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def close(self) -> None:
        self.group.close_nowait()
        await self.ended.wait()


def failure(member: Running) -> Exception:
    """Return the only exception in the group that the member's `consume` raised."""
    assert isinstance(member.error, ExceptionGroup)
    (error,) = member.error.exceptions
    return error


def claim_failure(member: Running) -> BaseException:
    """Return the exception that the only failed claim raised."""
    error = failure(member)
    assert isinstance(error, ClaimError)
    assert error.__cause__ is not None
    return error.__cause__


def budget_of(group: ConsumerGroup) -> ByteBudget:
    """Return the byte budget of an open group. It stays readable after the group is closed."""
    assert group._runtime is not None
    return group._runtime.budget


def assert_given_back(budget: ByteBudget) -> None:
    """Assert that no bytes are held or reserved, as it must be after reading has ended for any reason."""
    assert (budget.held, budget.reserved, len(budget._shares)) == (0, 0, 0), "held, reserved, open shares"


DEFAULTS = {"offset_initial": "oldest"}


async def start_member(
    nursery: trio.Nursery,
    cluster: EmbeddedCluster,
    handler: ConsumerGroupHandler,
    *,
    group: str = "g",
    topics: tuple[str, ...] | re.Pattern[str] = ("orders",),
    transport: Any = None,
    assignors: Sequence[Assignor] = (),
    interceptors: Sequence[ConsumerInterceptor] = (),
    observers: Sequence[Observer] = (),
    wall_clock: Callable[[], float] = time.time,
    topic_configs: Mapping[str, TopicConfig] | None = None,
    **options: Any,
) -> Running:
    """Start a member of `group`, which runs until it is closed, its scope is cancelled, or it fails.

    At its end it must have given back all bytes of its budget; otherwise the nursery fails.
    """
    events: list[Event] = []
    config = Config(**{**DEFAULTS, **options}, topics=topic_configs or {})

    async def run(*, task_status: trio.TaskStatus[Running]) -> None:
        member = ConsumerGroup(
            cluster.bootstrap_servers,
            group,
            config,
            observers=[events.append, *observers],
            interceptors=interceptors,
            assignors=assignors,
            transport=transport or cluster.transport,
            run_sync=run_inline,
            wall_clock=wall_clock,
        )
        running, budget = Running(member, trio.CancelScope(), events), ByteBudget(1)
        task_status.started(running)
        try:
            with running.scope:
                async with member:
                    budget = budget_of(member)
                    if isinstance(topics, tuple):
                        await member.consume(topics, handler)
                    else:
                        await member.consume(pattern=topics, handler=handler)
        except Exception as error:
            running.error = error
        finally:
            running.ended.set()
            assert_given_back(budget)

    return await nursery.start(run)


async def start_leaving(
    nursery: trio.Nursery, cluster: EmbeddedCluster, *, answered_after: float, **options: Any
) -> Running:
    """Start a member that unsubscribes in its first session. Its leave is answered after `answered_after` seconds."""
    handler = Recorder()
    member = await start_member(nursery, cluster, handler, **options)
    await handler.until(lambda: bool(handler.sessions))
    cluster.delay_next(Api.LEAVE_GROUP, answered_after)
    member.group.unsubscribe()
    return member


@asynccontextmanager
async def deadline(seconds: float = 600.0) -> AsyncIterator[trio.Nursery]:
    """Open a nursery that is cancelled at the end of the block, which must end within `seconds` of virtual time."""
    with trio.fail_after(seconds):
        async with trio.open_nursery() as nursery:
            yield nursery
            nursery.cancel_scope.cancel()


def orders(partitions: int = 1, brokers: int = 1) -> EmbeddedCluster:
    return EmbeddedCluster(topics={"orders": partitions}, brokers=brokers, in_memory=True, seed=1)


def fill(cluster: EmbeddedCluster, count: int, partition: int = 0, topic: str = "orders") -> None:
    for i in range(count):
        cluster.produce(topic, partition, b"%d" % i)


async def eventually(condition: Callable[[], bool]) -> None:
    """Poll in virtual time until `condition` is true, for conditions that no event announces."""
    while not condition():
        await trio.sleep(0.1)


def committed(cluster: EmbeddedCluster, group: str = "g") -> dict[str, int]:
    """Return the group's committed offsets: "topic-partition" -> offset."""
    return {str(tp): offset.offset for tp, offset in cluster.committed(group).items()}


class CutOff:
    """A transport that can be cut off: while it is not `alive`, its streams neither transfer data nor fail."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._revived = trio.Event()
        self._revived.set()

    @property
    def alive(self) -> bool:
        return self._revived.is_set()

    @alive.setter
    def alive(self, alive: bool) -> None:
        if alive:
            self._revived.set()
        elif self._revived.is_set():
            self._revived = trio.Event()

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await self._until_alive()
        return _CutOffStream(self, await self._transport.connect(host, port))

    async def _until_alive(self) -> None:
        while not self.alive:
            await self._revived.wait()


class Through(trio.abc.Stream):
    """A stream that forwards everything to another stream. Subclasses observe, delay or change the data."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


class _CutOffStream(Through):
    def __init__(self, owner: CutOff, stream: trio.abc.Stream) -> None:
        super().__init__(stream)
        self._owner = owner

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._owner._until_alive()
        await super().send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await super().receive_some(max_bytes)
        await self._owner._until_alive()
        return data


__all__ = [
    "CommittedOffset",
    "CutOff",
    "OwnAssignor",
    "Recorder",
    "Running",
    "Through",
    "TopicPartition",
    "assert_given_back",
    "budget_of",
    "claim_failure",
    "committed",
    "deadline",
    "eventually",
    "failure",
    "fill",
    "orders",
    "start_member",
]
