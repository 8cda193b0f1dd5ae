"""Recordings of short churn schedules: the requests, events and handler calls of a group, as text to compare.

Recordings guard a rewrite: record many seeds with the old code, record them again with the new code, and read the
differences. `record_seed(seed)` runs one schedule in virtual time. Its text depends on behaviour only, not on the
number of tasks or scheduler passes that the code needs:

- Each random choice is drawn by name (`Draws`), so it does not depend on the number of other choices before it.
- The scheduler runs ready tasks in the order of their creation, or, for odd seeds, the other way round.
- Each hop of the network takes some milliseconds, and each call of a handler at least one.
- Lines of one instant are sorted by member and channel; within a channel their order counts.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
import trio
from trio.testing import MockClock

from sarameya import Config, ConsumerGroup, Event, TopicPartition
from sarameya.embedded import EmbeddedCluster, apis
from sarameya.embedded.apis import Call
from sarameya.embedded.network import server
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.observe import ConnectionLost, LoopBlocked
from sarameya.protocol.versions import Api
from sarameya.testing import run_inline, virtual_wall_clock
from tests.churn.faults import CODES
from tests.churn.recorded_handlers import TEMPERS, Behaviour, Draws, RecordedClaims, RecordedStreams
from tests.churn.recorded_wire import RequestLines
from tests.group.kit import CutOff, Through

GROUP = "g"
TOPICS = ("orders", "events")
SECONDS = 10.0
"""The length of a schedule, in virtual seconds."""
SETTLE_SECONDS = 3.0
"""The time between the last fault and the closing of all members."""
END_SECONDS = 90.0
"""The longest time that members may need to end after they are closed."""
FAULT_SECONDS = 1.6
"""The mean time between two faults."""
BROKERS = 2
MAX_MEMBERS = 4
STRATEGIES = (("range",), ("cooperative-sticky",), ("cooperative-sticky",), ("sticky", "range"))


@attrs.define(slots=True, eq=False)
class _Member:
    name: str
    group: ConsumerGroup
    network: CutOff
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


class _SlowStream(Through):
    """A stream whose bytes take some milliseconds in each direction."""

    def __init__(self, stream: trio.abc.Stream, seconds: float) -> None:
        super().__init__(stream)
        self._seconds = seconds

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.sleep(self._seconds)
        await super().send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await super().receive_some(max_bytes)
        await trio.sleep(self._seconds)
        return data


class _SlowNetwork:
    """The cluster's network with a delay of some milliseconds, different for each broker."""

    def __init__(self, network: Any, seconds: float) -> None:
        self._network = network
        self._seconds = seconds

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        await trio.sleep(self._seconds)
        return _SlowStream(await self._network.connect(host, port), self._seconds * (1 + 0.13 * int(host[-1])))


class FixedOrder(random.Random):
    """A replacement for trio's random numbers: ready tasks run in order of creation, or in reverse for odd seeds."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._reverses = seed % 2 == 1

    def shuffle(self, x: Any) -> None:
        if self._reverses:
            x.reverse()


class _ConstantJitter(random.Random):
    """A source of random numbers that always returns the mean."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


class Recording:
    """A schedule that records itself while it runs."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._draws = Draws(str(seed))
        self._plan = random.Random(seed)
        self._strategies = STRATEGIES[self._plan.randrange(len(STRATEGIES))]
        self._initial = self._plan.choice(("oldest", "newest", "newest"))
        self._autocommit = self._plan.random() < 0.8
        self._rebalance_timeout = self._plan.choice((6.0, 9.0, 20.0))
        self.cluster = EmbeddedCluster(
            topics={"orders": self._plan.randrange(2, 6), "events": 2},
            brokers=BROKERS,
            in_memory=True,
            wall_clock=virtual_wall_clock,
            seed=seed,
        )
        self._alive: list[_Member] = []
        self._started = 0
        self._requests = RequestLines()
        self._lines: list[tuple[float, str, str, int, str]] = []

    def text(self) -> str:
        """Return the recording: a line for each request, event, call and fault."""
        lines = sorted(self._lines)
        return "".join(f"{at:9.4f} {who} [{channel}] {what}\n" for at, who, channel, _, what in lines)

    def log(self, who: str, channel: str, what: str) -> None:
        """Add a line."""
        self._lines.append((round(trio.current_time(), 4), who, channel, len(self._lines), what))

    async def run(self) -> None:
        """Run the schedule, and record it."""
        async with self.cluster, trio.open_nursery() as nursery:
            self._nursery = nursery
            for _ in range(2):
                await self._start()
            with trio.move_on_after(SECONDS):
                async with trio.open_nursery() as churn:
                    churn.start_soon(self._produce)
                    churn.start_soon(self._cause_faults)
            self.cluster.clear_faults()
            for member in self._alive:
                member.network.alive = True
            await trio.sleep(SETTLE_SECONDS)
            for member in self._alive:
                member.group.close_nowait()
            with trio.move_on_after(END_SECONDS):
                while self._alive:
                    await trio.sleep(0.5)
            for member in self._alive:
                self.log(member.name, "end", "has not ended")
            for partition, commit in sorted(self.cluster.committed(GROUP).items()):
                self.log("group", "end", f"{partition} committed {commit.offset} {commit.metadata}".rstrip())
            nursery.cancel_scope.cancel()

    async def _produce(self) -> None:
        count = 0
        while True:
            rng = self._draws.of("produce")
            topic = TOPICS[rng.random() < 0.25]
            for _ in range(rng.randrange(1, 5)):
                self.cluster.produce(topic, rng.randrange(2), b"%d" % count)
                count += 1
            if topic == "orders":
                self.cluster.produce(topic, 0, b"%d" % count)
            await trio.sleep(rng.uniform(0.2, 1.6))

    async def _cause_faults(self) -> None:
        names = sorted(_FAULTS)
        async with trio.open_nursery() as nursery:
            while True:
                rng = self._draws.of("fault")
                await trio.sleep(rng.expovariate(1 / FAULT_SECONDS))
                name = rng.choice(names)
                self.log("world", "fault", name)
                nursery.start_soon(partial(_FAULTS[name], self, rng))

    # -- members --------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self._started += 1
        name = f"m{self._started}"
        draws = Draws(f"{self._seed}/{name}")
        rng = draws.of("member")
        temper = rng.choice(TEMPERS)
        network = CutOff(_SlowNetwork(self.cluster.transport, 0.002 + 0.0003 * self._started))
        group = ConsumerGroup(
            self.cluster.bootstrap_servers,
            GROUP,
            self._config(name, rng),
            observers=[partial(self._on_event, name)],
            transport=network,
            run_sync=run_inline,
            rng=_ConstantJitter(),
            wall_clock=virtual_wall_clock,
        )
        behaviour = Behaviour(temper, draws, partial(self.log, name))
        by_batch, streams = rng.random() < 0.3, rng.choice((0, 0, 1, 2))
        handler = RecordedStreams(behaviour, by_batch, streams) if streams else RecordedClaims(behaviour, by_batch)
        topics = rng.choice((("orders",), ("orders",), TOPICS))
        self.log(name, "start", f"{temper}, {type(handler).__name__} {streams} {by_batch}, of {topics}")
        member = _Member(name, group, network)
        self._alive.append(member)
        self._nursery.start_soon(self._run, member, topics, handler)

    def _config(self, name: str, rng: random.Random) -> Config:
        return Config(
            client_id=name,
            rebalance_strategies=self._strategies,  # type: ignore[arg-type]
            group_instance_id=f"{name}-static" if rng.random() < 0.1 else None,
            offset_initial=self._initial,
            offset_out_of_range="oldest",
            session_timeout=6.0,
            heartbeat_interval=1.2,
            rebalance_timeout=self._rebalance_timeout,
            rebalance_margin=0.5,
            claim_grace=1.5,
            close_timeout=4.0,
            autocommit=self._autocommit,
            autocommit_interval=1.3,
            request_timeout=5.0,
            fetch_max_wait=5.0,
            max_processing_time=1.0,
        )

    async def _run(self, member: _Member, topics: tuple[str, ...], handler: Any) -> None:
        try:
            with member.scope:
                async with member.group:
                    await member.group.consume(topics, handler)
            self.log(member.name, "end", "cancelled" if member.scope.cancelled_caught else "returned")
        except Exception as error:
            self.log(member.name, "end", f"raised {_error(error)}")
        finally:
            if member in self._alive:
                self._alive.remove(member)

    def _on_event(self, name: str, event: Event) -> None:
        if isinstance(event, ConnectionLost | LoopBlocked):  # LoopBlocked depends on real time
            return
        partition = getattr(event, "partition", None)
        channel = f"event {partition}" if isinstance(partition, TopicPartition) else "event"
        self.log(name, channel, _event(event))

    def record_request(self, call: Call, refusal: ErrorCode | None) -> None:
        """Record a request that a broker has received."""
        for channel, text in self._requests.of(call):
            refused = "" if refusal is None else f" (refused: {refusal.name})"
            self.log(call.request.client_id, channel, f"{text}{refused}")

    def pick_member(self, rng: random.Random) -> _Member | None:
        """Return a random living member, or None if there is none."""
        return self._alive[rng.randrange(len(self._alive))] if self._alive else None


# -- faults -------------------------------------------------------------------------------------------


async def _start(world: Recording, rng: random.Random) -> None:
    if len(world._alive) < MAX_MEMBERS:
        await world._start()


async def _close(world: Recording, rng: random.Random) -> None:
    if len(world._alive) > 1 and (member := world.pick_member(rng)) is not None:
        member.group.close_nowait()


async def _cancel(world: Recording, rng: random.Random) -> None:
    if len(world._alive) > 1 and (member := world.pick_member(rng)) is not None:
        member.scope.cancel()


async def _crash(world: Recording, rng: random.Random) -> None:
    if len(world._alive) > 1 and (member := world.pick_member(rng)) is not None:
        member.network.alive = False
        member.scope.cancel()


async def _freeze(world: Recording, rng: random.Random) -> None:
    if (member := world.pick_member(rng)) is not None:
        member.network.alive = False
        await trio.sleep(rng.uniform(0.5, 9))
        member.network.alive = True


async def _subscribe(world: Recording, rng: random.Random) -> None:
    if (member := world.pick_member(rng)) is not None and member.group._member is not None:
        member.group.subscribe(rng.choice((("orders",), ("events",), TOPICS)))


async def _unsubscribe(world: Recording, rng: random.Random) -> None:
    if (member := world.pick_member(rng)) is None or member.group._member is None:
        return
    member.group.unsubscribe()
    await trio.sleep(rng.uniform(0.1, 6))
    if member.group._member is not None:
        member.group.subscribe(("orders",))


async def _refuse(world: Recording, rng: random.Random) -> None:
    api = rng.choice(sorted(CODES, key=int))
    code, member = rng.choice(CODES[api]), world.pick_member(rng)
    if rng.random() < 0.05 and api is not Api.FETCH:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    world.cluster.fail_next(api, code, rng.randrange(1, 4), client_id=None if member is None else member.name)


async def _refuse_commits(world: Recording, rng: random.Random) -> None:
    """Refuse commits of a member, maybe until the deadline of a rebalance."""
    if (member := world.pick_member(rng)) is not None:
        code = rng.choice((ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, *CODES[Api.OFFSET_COMMIT]))
        world.cluster.fail_next(Api.OFFSET_COMMIT, code, rng.randrange(1, 12), client_id=member.name)


async def _lose(world: Recording, rng: random.Random) -> None:
    api = rng.choice(sorted(CODES, key=int))
    member = world.pick_member(rng)
    name = None if member is None else member.name
    half: Any = rng.choice(("request", "answer"))
    if rng.random() < 0.6:
        world.cluster.delay_next(api, rng.uniform(0.1, 8), rng.randrange(1, 3), half=half, client_id=name)
    else:
        world.cluster.drop_next(api, 1, half=half, hang_up=rng.random() < 0.5, client_id=name)


async def _move_coordinator(world: Recording, rng: random.Random) -> None:
    world.cluster.move_coordinator(GROUP, rng.randrange(BROKERS), load_time=rng.choice((0.0, 0.0, 2.0)))


async def _move_leader(world: Recording, rng: random.Random) -> None:
    world.cluster.move_leader("orders", rng.randrange(2), rng.randrange(BROKERS))


async def _disconnect(world: Recording, rng: random.Random) -> None:
    world.cluster.disconnect(rng.choice((None, 0, 1)))


async def _expire(world: Recording, rng: random.Random) -> None:
    try:
        members = sorted(world.cluster.describe_group(GROUP).members, key=lambda member: member.client_id)
    except Refused:
        return
    if members:
        world.cluster.expire_member(GROUP, members[rng.randrange(len(members))].member_id)


async def _pause(world: Recording, rng: random.Random) -> None:
    if (member := world.pick_member(rng)) is not None:
        partition = TopicPartition("orders", rng.randrange(2))
        member.group.pause([partition])
        await trio.sleep(rng.uniform(0.5, 9))
        member.group.resume([partition])


async def _grow(world: Recording, rng: random.Random) -> None:
    count = len(world.cluster._state.topics.topic("events").partitions)
    if count < 4:
        world.cluster.add_partitions("events", count + 1)


async def _delete_head(world: Recording, rng: random.Random) -> None:
    log = world.cluster.log("orders", 0)
    world.cluster.delete_records("orders", 0, max(log.start_offset, log.end_offset - 5))


_FAULTS = {
    "start": _start,
    "start again": _start,
    "close": _close,
    "cancel": _cancel,
    "crash": _crash,
    "freeze": _freeze,
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "refuse": _refuse,
    "refuse commits": _refuse_commits,
    "lose": _lose,
    "lose again": _lose,
    "move coordinator": _move_coordinator,
    "move leader": _move_leader,
    "disconnect": _disconnect,
    "expire": _expire,
    "pause": _pause,
    "grow": _grow,
    "delete head": _delete_head,
}


# -- text -----------------------------------------------------------------------------------------------


def _event(event: Event) -> str:
    """Return an event as a line, without the stack of a stuck task: the stack depends on the code, not on behaviour."""
    return str(event).splitlines()[0].removesuffix("; its stack:")


def _error(error: BaseException) -> str:
    notes = list(getattr(error, "__notes__", ()))
    text = f"{type(error).__name__}({str(error)!r}, {notes})"
    if isinstance(error, BaseExceptionGroup):
        return f"{text}[{'; '.join(sorted(map(_error, error.exceptions)))}]"
    return text if error.__cause__ is None else f"{text} from {_error(error.__cause__)}"


def record_seed(seed: int) -> str:
    """Run the schedule of a seed, and return its recording."""
    recording = Recording(seed)

    def dispatch(call: Call, refusal: ErrorCode | None = None) -> None:
        recording.record_request(call, refusal)
        apis.dispatch(call, refusal)

    before, server.dispatch = server.dispatch, dispatch
    try:
        with _fixed_order_scheduler(seed):
            trio.run(recording.run, clock=MockClock(autojump_threshold=0))
    finally:
        server.dispatch = before
    return recording.text()


def digest(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def _fixed_order_scheduler(seed: int) -> Iterator[None]:
    scheduler: Any = trio._core._run
    before = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = True, FixedOrder(seed)
    try:
        yield
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r = before
