"""Random schedules of a group of message handlers in virtual time, with faults, and the rules that must hold.

Members handle messages of two topics, mostly in order by key, at random speed, with failures, retries in place, retry
topics, dead letters and circuit breakers. Meanwhile members join, close, are cancelled, or are cut off from the
brokers: a cut-off member is a zombie, which continues until it notices. Commit requests are lost or refused. Dead
letters are redriven.

The rules:

- Each message is handled, or is a dead letter. In the end, all are handled except those redriven too often.
- By key: a message starts only after each earlier message of its key and partition was handled, or sent to a retry
  topic or the dead letters.
- Only a zombie starts a message that a stored commit covers.
- In the end everything is committed, and no member has failed.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import trio
from trio.testing import MockClock

from sarameya import (
    BatchHandler,
    CircuitBreaker,
    Claim,
    Config,
    ConsumerGroup,
    DeadLetterTopic,
    Message,
    MessageHandler,
    Retry,
    RetryTopics,
    SarameyaError,
    TopicPartition,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.error_codes import ErrorCode
from sarameya.group.claim import ConcurrentMessages
from sarameya.handling.letters import ERRORS, Letter
from sarameya.handling.options import Ordering
from sarameya.protocol.completion_tracker import Completion
from sarameya.protocol.versions import Api
from sarameya.service.groups.topic_choice import TopicChoice
from sarameya.service.letters.log_reader import Selection
from sarameya.service.letters.redrive import RedriveOptions, redrive
from sarameya.service.letters.redrive_rules import RedriveRules
from sarameya.testing import memory_cluster, run_inline, virtual_wall_clock
from tests.group.kit import CutOff
from tests.producer.kit import log, records
from tests.service.letters.kit import clients_of

Place = tuple[str, int, int]
"""Topic, partition and offset of a message."""

TOPICS = {"orders": 3, "payments": 1}
GROUP = "billing"
FAULTS = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
)
CALM = 3 * 3600.0
"""Seconds without faults within which everything must be handled."""


class BrokenRule(AssertionError):
    """Raised if a schedule breaks a rule."""


@attrs.define(eq=False)
class Member:
    """A member of the group, its connections, and its claims."""

    number: int
    transport: CutOff
    config: Config
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    group: ConsumerGroup | None = None
    claims: set[Claim] = attrs.field(factory=set)
    zombies: set[Claim] = attrs.field(factory=set)
    """Claims that were open when the member was cut off."""
    ended: trio.Event = attrs.field(factory=trio.Event)


class Work:
    """The work of a member on a message. Its speed, its failures and its options depend on the seed."""

    retry = Retry(attempts=2, backoff=0.5, backoff_max=5)
    retry_topics = RetryTopics([5, 30])
    dead_letters = DeadLetterTopic()

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = random.Random(world.rng.random())
        self.concurrency = self._rng.choice([1, 2, 5, 20])
        self.ordering: Ordering = self._rng.choice(["key", "key", "partition"]) if world.has_order else "none"
        self.partition_concurrency = self._rng.choice([None, None, 1, 3])
        self.circuit_breaker = self._rng.choice([None, CircuitBreaker(failures=3, pause=2.0)])
        self.max_handler_time = self._rng.choice([None, 3.0])

    async def work(self, message: Message) -> None:
        world, rng, place = self._world, self._rng, (message.topic, message.partition, message.offset)
        world.start(place)
        await trio.sleep(rng.choice([0, 0.01, 0.3, 1, 5]))
        is_poison = int(message.value or b"") % 20 == 0
        if not world.is_calm and (is_poison or rng.random() < 0.15):
            raise OSError(f"{place} fails")
        world.done.add(place)
        world.handled.add(message.value)
        if rng.random() < 0.1:  # the message is done, so it may be repeated
            await trio.sleep(rng.choice([0.1, 2]))
            if not world.is_calm and rng.random() < 0.5:
                raise OSError(f"{place} fails late")


class Worker(Work, MessageHandler):
    """A handler of single messages."""

    async def handle(self, message: Message) -> None:
        await self.work(message)


class BatchWorker(Work, BatchHandler):
    """A handler of batches, message by message. A failed batch may have handled some of its messages."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.batch_size = self._rng.choice([2, 10])
        self.batch_age = self._rng.choice([0.1, 5.0])

    async def handle_batch(self, messages: Sequence[Message]) -> None:
        for message in messages:
            await self.work(message)


class World:
    """The cluster, the members and the messages of one schedule."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster: EmbeddedCluster = memory_cluster(TOPICS, seed=seed)
        self.done: set[Place] = set()
        self.sent: dict[Place, bytes | None] = {}
        """The key of each message, by its place."""
        self.by_key: dict[tuple[str, int, bytes], list[Place]] = defaultdict(list)
        self.values: set[bytes | None] = set()
        """The value of each message. A redriven message keeps it."""
        self.handled: set[bytes | None] = set()
        self.away: set[Place] = set()
        """Messages in a retry topic, or in the dead letters."""
        self.members: list[Member] = []
        self.batches: dict[tuple[str, int], int] = defaultdict(int)
        """Number of batches of each log that were read."""
        self.is_calm = False
        self.has_order = self.rng.random() < 0.8
        """False if members handle messages in any order."""
        self.started = self.repeated = self.joined = self.redriven = 0
        self._strategy = self.rng.choice(["cooperative-sticky", "range"])

    # -- the rules -----------------------------------------------------------------------------------

    def start(self, place: Place) -> None:
        """Check the order by key before a message is handled."""
        self.started += 1
        self.repeated += place in self.done
        self.find_sent()
        key, (topic, partition, offset) = self.sent[place], place
        if key is None or not self.has_order:
            return
        missing = {other for other in self.by_key[topic, partition, key] if other[2] < offset} - self.done
        if missing and place not in (away := self.sent_away()) and missing - away:
            raise BrokenRule(f"{place} is started before {min(missing - away)}, of the same key")

    def find_sent(self) -> None:
        """Record messages that were produced or redriven since the last call."""
        for topic in TOPICS:
            for message in self.new_messages(topic):
                place = (topic, message.partition, message.offset)
                self.sent[place] = message.key
                if message.key is not None:
                    self.by_key[topic, message.partition, message.key].append(place)

    def sent_away(self) -> set[Place]:
        """Return the messages that are in a retry topic, or in the dead letters."""
        for topic in self.other_topics():
            for message in self.new_messages(topic):
                headers = {name: (value or b"").decode() for name, value in message.headers}
                origin, number, offset = (headers[f"{ERRORS}{name}"] for name in ("topic", "partition", "offset"))
                self.away.add((origin, int(number), int(offset)))
        return self.away

    def new_messages(self, topic: str) -> Iterator[Message]:
        """Return the messages of a topic that were sent since the last call."""
        for partition in range(len(self.cluster._state.topics.topic(topic).partitions)):
            read, batches = self.batches[topic, partition], self.cluster.log(topic, partition).batches()
            self.batches[topic, partition] = len(batches)
            yield from records(batches[read:], TopicPartition(topic, partition))

    def other_topics(self) -> list[str]:
        return [topic.name for topic in self.cluster._state.topics if topic.name.endswith((".5s", ".30s", ".dead"))]

    def member_of(self, claim: Claim) -> Member:
        return next(member for member in self.members if member.config is claim._config)

    def opened(self, claim: Claim) -> None:
        """Record that a member reads a claim."""
        self.member_of(claim).claims.add(claim)

    def check_commit(self, claim: Claim, message: Message) -> None:
        """Check that no stored commit covers a delivered message, except for a zombie."""
        commit = self.cluster.committed(GROUP).get(message.topic_partition)
        if commit is None or claim in self.member_of(claim).zombies:
            return
        found = Completion.of_commit(commit)
        is_known = found is not None and message.offset < found.end and message.offset not in found.unfinished
        if message.offset < commit.offset or is_known:
            raise BrokenRule(f"{message.topic_partition} offset {message.offset} is delivered in spite of {commit}")

    def letters(self) -> list[Letter]:
        """Return the dead letters."""
        found = []
        for topic in self.other_topics():
            if topic.endswith(".dead"):
                for partition in range(len(self.cluster._state.topics.topic(topic).partitions)):
                    found += [Letter.of(message) for message in log(self.cluster, partition, topic)]
        return found

    def unhandled(self) -> set[Place]:
        self.find_sent()
        left = self.sent.keys() - self.done
        return left - self.sent_away() if left else left

    def uncommitted(self) -> list[str]:
        """Return the partitions whose log is not committed up to its end."""
        commits, found = self.cluster.committed(GROUP), []
        for topic in [*TOPICS, *(name for name in self.other_topics() if not name.endswith(".dead"))]:
            for number, partition in enumerate(self.cluster._state.topics.topic(topic).partitions):
                commit = commits.get(TopicPartition(topic, number))
                if partition.log.end_offset and (commit is None or commit.offset < partition.log.end_offset):
                    found.append(f"{topic}-{number}: {commit}, end {partition.log.end_offset}")
        return found

    # -- the schedule --------------------------------------------------------------------------------

    async def run(self) -> str:
        """Run the schedule. Return a summary line."""
        rng = self.rng
        with _watched_claims(self.opened, self.check_commit):
            async with self.cluster, trio.open_nursery() as nursery:
                for _ in range(rng.randint(1, 3)):
                    self.join(nursery)
                for _ in range(rng.randint(10, 40)):
                    for _ in range(rng.choice([0, 1, 5, 20])):
                        self.produce()
                    await self.act(nursery)
                    await trio.sleep(rng.choice([0, 0.1, 1, 10, 60]))
                await self.calm_down(nursery)
        return (
            f"{len(self.sent)} messages, {self.started} started, {self.repeated} repeated, {self.redriven} redriven, "
            f"{self.joined} members"
        )

    def produce(self) -> None:
        topic = self.rng.choice(list(TOPICS))
        partition, key = self.rng.randrange(TOPICS[topic]), self.rng.choice([None, b"a", b"b", b"c"])
        value = b"%d" % len(self.values)
        self.cluster.produce(topic, partition, value, key=key)
        self.values.add(value)

    async def act(self, nursery: trio.Nursery) -> None:
        """Apply a random action to the group."""
        rng, members = self.rng, [member for member in self.members if not member.ended.is_set()]
        actions = ["", "", "join", "close", "cancel", "cut", "heal", "crash", "commits", "answers", "move", "redrive"]
        match rng.choice(actions):
            case "join" if len(members) < 4:
                self.join(nursery)
            case "close" if members:
                member = rng.choice(members)
                if member.group is not None:
                    member.group.close_nowait()
            case "cancel" if members:
                rng.choice(members).scope.cancel()
            case "cut" if members:
                self.cut(rng.choice(members))
            case "heal":
                for member in members:
                    member.transport.alive = True
            case "crash" if members:
                self.cut(member := rng.choice(members))
                member.scope.cancel()
            case "commits":
                self.cluster.fail_next(Api.OFFSET_COMMIT, rng.choice(FAULTS), rng.randint(1, 3))
            case "answers":
                half = rng.choice(["request", "answer"])
                self.cluster.drop_next(rng.choice([Api.OFFSET_COMMIT, Api.PRODUCE, Api.HEARTBEAT]), half=half)
            case "move":
                self.cluster.move_coordinator(GROUP, 0, load_time=rng.choice([0, 5]))

            case "redrive":
                nursery.start_soon(self.redrive)

    async def redrive(self) -> None:
        """Redrive all dead letters, as far as the faults allow."""
        for topic in TOPICS:
            letters = f"{topic}.{GROUP}.dead"
            if letters in self.other_topics():
                options = RedriveOptions(group=f"letters.{letters}", rules=RedriveRules(max_redrives=2), execute=True)
                with suppress(SarameyaError):
                    result = await redrive(clients_of(self.cluster), Selection(TopicChoice(letters)), options)
                    self.redriven += result.document["letters"]

    def cut(self, member: Member) -> None:
        member.transport.alive = False
        member.zombies |= member.claims

    def join(self, nursery: trio.Nursery) -> None:
        self.joined += 1
        transport = CutOff(self.cluster.transport)
        config = Config(
            offset_initial="oldest",
            rebalance_strategies=[self._strategy],
            session_timeout=10,
            heartbeat_interval=3,
            rebalance_timeout=30,
            autocommit_interval=self.rng.choice([0.5, 5.0]),
            bootstrap_timeout=600,
            fetch_max_wait=5,
        )
        self.members.append(member := Member(self.joined, transport, config))
        nursery.start_soon(self._consume, member)

    async def _consume(self, member: Member) -> None:
        with member.scope:
            async with ConsumerGroup(
                self.cluster.bootstrap_servers,
                GROUP,
                member.config,
                transport=member.transport,
                run_sync=run_inline,
                rng=random.Random(self.rng.random()),
                wall_clock=virtual_wall_clock,
            ) as member.group:
                kind = self.rng.choice([Worker, Worker, BatchWorker])
                await member.group.consume(list(TOPICS), kind(self))
        member.ended.set()

    async def calm_down(self, nursery: trio.Nursery) -> None:
        """End all faults, wait until everything is handled and committed, and close the members."""
        self.is_calm = True
        self.cluster.clear_faults()
        for member in self.members:
            member.transport.alive = True
        self.join(nursery)
        redriven_before = -1
        while redriven_before < self.redriven:
            redriven_before = self.redriven
            with trio.move_on_after(CALM) as waiting:
                while self.unhandled() or self.uncommitted():
                    await trio.sleep(5)
            if waiting.cancelled_caught:
                raise BrokenRule(f"after {CALM:g} s: unhandled {sorted(self.unhandled())}, {self.uncommitted()}")
            await self.redrive()
        refused = {letter.message.value for letter in self.letters() if letter.redriven >= 2}
        if lost := self.values - self.handled - refused:
            raise BrokenRule(f"neither handled nor refused after redrives: {sorted(map(str, lost))}")
        for member in self.members:
            if member.group is not None:
                member.group.close_nowait()


@contextmanager
def _watched_claims(opened: Any, check: Any) -> Iterator[None]:
    """Call `opened` with each claim that is read, and `check` with each message that a claim delivers."""
    open_before: Any = ConcurrentMessages.__init__
    before: Any = ConcurrentMessages.__anext__

    def open_claim(messages: ConcurrentMessages, claim: Claim, *args: Any) -> None:
        open_before(messages, claim, *args)
        opened(claim)

    async def deliver(messages: ConcurrentMessages) -> Message:
        message: Message = await before(messages)
        check(messages._claim, message)
        return message

    ConcurrentMessages.__init__ = open_claim  # type: ignore[method-assign, assignment]
    ConcurrentMessages.__anext__ = deliver  # type: ignore[method-assign]
    try:
        yield
    finally:
        ConcurrentMessages.__init__ = open_before  # type: ignore[method-assign]
        ConcurrentMessages.__anext__ = before  # type: ignore[method-assign]


def run(seed: int) -> str:
    """Run one schedule. Return a summary line.

    Raises:
        BrokenRule: A rule is broken, maybe in an ExceptionGroup.
    """
    scheduler: Any = trio._core._run
    before = scheduler._ALLOW_DETERMINISTIC_SCHEDULING, scheduler._r.getstate()
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    scheduler._r.seed(seed)
    try:
        return trio.run(World(seed).run, clock=MockClock(autojump_threshold=0))
    finally:
        scheduler._ALLOW_DETERMINISTIC_SCHEDULING = before[0]
        scheduler._r.setstate(before[1])


def main() -> int:
    """Run the schedules of these seeds: `python -m tests.handling.schedules FIRST COUNT`."""
    import sys
    import traceback

    first, count = int(sys.argv[1]), int(sys.argv[2])
    failed = 0
    for seed in range(first, first + count):
        try:
            line = run(seed)
        except Exception:
            failed += 1
            print(f"seed {seed}: FAILED", flush=True)
            traceback.print_exc()
        else:
            print(f"seed {seed}: {line}", flush=True)
    print(f"{count} schedules, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
