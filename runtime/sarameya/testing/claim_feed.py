"""A handler's test without a cluster: a session of one claim, whose log the test writes as it goes.

Whatever a handler can notice is the runtime's own: the session and its order of calls, the claim, marks and commits,
backpressure, interceptors, deadlines. Stood in for are the brokers (`fed_log.py`, `feeding.py`) and the group's
coordinator (`fed_member.py`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Literal

import attrs
import trio
from trio.testing import MockClock

from sarameya.config import Config
from sarameya.consumer.resets import Resets
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.error_codes import ErrorCode
from sarameya.errors import SarameyaError
from sarameya.group.handler import ConsumerGroupHandler, StreamHandler
from sarameya.group.interceptors import ConsumerInterceptor, Interceptors, check_interceptors
from sarameya.group.member import NewAssignment
from sarameya.group.offset_manager import OffsetManager
from sarameya.group.outcome import Outcome
from sarameya.group.pauses import Pauses
from sarameya.group.session_run import SessionRun
from sarameya.group.source import Source
from sarameya.group.time_slices import HandlerTime
from sarameya.model import CommittedOffset, Generation, Headers, TopicPartition
from sarameya.observe import ClaimStarted, Event, Observer, Observers
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.byte_budget import ByteBudget
from sarameya.protocol.membership_messages import MembershipLost, PrepareRebalance
from sarameya.protocol.offset_ledger import OffsetLedger
from sarameya.protocol.records import build
from sarameya.testing.feed_fetcher import FeedFetcher
from sarameya.testing.feed_log import FeedLog
from sarameya.testing.feed_member import FeedCoordinator, FeedMember
from sarameya.testing.feed_script import FeedScript
from sarameya.testing.virtual_time import VIRTUAL_EPOCH, virtual_wall_clock

_REASONS = {"end": "the test gives the partition to somebody else", "lose": "the test takes the membership away"}


@attrs.frozen(slots=True)
class _Surroundings:
    group: str
    config: Config
    observer: Observer
    backoff: Backoff
    budget: ByteBudget
    interceptors: Interceptors
    handler_time: HandlerTime
    wall_clock: Callable[[], float]


class ClaimFeed:
    """Feeds a handler one partition, without any broker:

        async def test_orders_are_added_up(autojump_clock):
            feed, orders = ClaimFeed("orders"), Orders()
            feed.send(b"3")
            feed.send(b"4")
            feed.end()
            await feed.run(orders)
            assert (orders.total, feed.committed) == (7, 2)

    What is sent stands in a log that begins at the offset `at`; `run` is one session of a member that reads it, from
    what the group has `committed` on: by default the log's start. None: nothing, so that `Config.offset_initial`
    decides, as it does for a new group. `end`, `lose` and `fail` have their place between messages: they take effect
    when the handler has dealt with all that was sent before them, which it says by asking for more. Log and commits
    are kept, so that a second `run` reads on where the group would, or again. Sessions are those of an eager assignor,
    also where `Config.rebalance_strategies` names a cooperative one: `end` ends them.

    Timers go by trio's clock: under a mock clock (`autojump_clock`), the autocommit interval, `max_processing_time` and
    the grace of a rebalance take no time. The delays of retries are drawn by `seed`, the same ones in every run. Raises
    ConfigError for interceptors that cannot be.
    """

    def __init__(
        self,
        topic: str = "topic",
        partition: int = 0,
        *,
        at: int = 0,
        committed: int | CommittedOffset | Literal["start"] | None = "start",
        group: str = "group",
        config: Config | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
        seed: int = 0,
    ) -> None:
        self.topic_partition = TopicPartition(topic, partition)
        self.group = group
        self.config = config if config is not None else Config()
        self.events: list[Event] = []
        """What observers of the group are told."""
        check_interceptors(interceptors)
        self._interceptors = tuple(interceptors)
        self._observer = Observers([self.events.append])
        self._log = PartitionLog(self.topic_partition)
        self._log.start_offset = self._log.end_offset = at
        self._script = FeedScript()
        offset = at if committed == "start" else committed
        first = CommittedOffset(offset) if isinstance(offset, int) else offset
        self._commits = FeedCoordinator({self.topic_partition: first} if first is not None else {})
        self._ledger = OffsetLedger({self.topic_partition: first})
        self._pauses = Pauses(group, self._observer)
        self._rng = random.Random(seed)
        self._made = time.monotonic()
        self._generation = 0
        self._member: FeedMember | None = None
        self._feeds: FeedFetcher | None = None

    # -- what the handler is given --------------------------------------------------------------------

    def send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
        *,
        offset: int | None = None,
    ) -> int:
        """Write one message, and return its offset: the next one, or a later one, behind a gap as compaction leaves it.
        `timestamp` is in milliseconds; None: now. Raises ValueError for an offset that is taken."""
        timestamp = int(self._wall_clock() * 1000) if timestamp is None else timestamp
        record = build([(timestamp, key, value, headers)], base_offset=offset or 0, leader_epoch=0)
        if offset is None:
            offset = self._log.append(record).base_offset
        else:
            self._log.append_raw(record, offset)
        self._look()
        return offset

    def delete_before(self, offset: int) -> None:
        """Lose the log's head, as retention does. Raises ValueError beyond its end."""
        if offset > self._log.end_offset:
            raise ValueError(f"{self.topic_partition}: the log ends at {self._log.end_offset}, before offset {offset}")
        self._log.delete_before(offset)

    def end(self, *, now: bool = False) -> None:
        """The partition goes to another member: the session ends in order, with `partitions_revoked`, `cleanup` and a
        last commit. `now`: whatever has not been read yet; raises RuntimeError while nothing runs."""
        self._take_place("end", now)

    def lose(self, *, now: bool = False) -> None:
        """The membership is lost, as after a silence: `partitions_lost`, and nothing more can be committed. `now` as
        for `end`."""
        self._take_place("lose", now)

    def fail(self, error: SarameyaError) -> None:
        """Reading fails here, once: `error` is raised where the handler reads. Raises TypeError for an error of
        another kind, which reading never raises."""
        if not isinstance(error, SarameyaError):
            raise TypeError(f"{error!r} is no SarameyaError: reading raises no others")
        self._script.add(self._log.end_offset, error)
        self._look()

    def fail_commits(self, code: ErrorCode, times: int = 1) -> None:
        """The coordinator answers the next commits with an error."""
        self._commits.refusals.extend([code] * times)

    # -- what came of it --------------------------------------------------------------------------------

    @property
    def marked(self) -> int | None:
        """The mark, committed or not: the next offset to read. None as long as nothing is."""
        mark = self._ledger.marked(self.topic_partition)
        return None if mark is None else mark.offset

    @property
    def committed(self) -> int | None:
        """What the group has committed: where its next member would begin. None where nothing is."""
        found = self.commit
        return None if found is None else found.offset

    @property
    def commit(self) -> CommittedOffset | None:
        """The commit with its metadata."""
        return self._commits.committed.get(self.topic_partition)

    # -- running ----------------------------------------------------------------------------------------

    async def run(
        self, handler: ConsumerGroupHandler, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """One session of `handler`, until it ends: by `end`, `lose` or `fail`, or because the handler fails, returns or
        ends it. In a nursery, `start` returns once the claim has begun.

        Raises what `ConsumerGroup.consume` does: an ExceptionGroup of ClaimErrors and of what its other methods raised,
        or GroupError where the coordinator refused (`fail_commits`). Raises RuntimeError while it runs already.
        """
        if self._member is not None:
            raise RuntimeError("run() is running already; a feed has one claim")
        if isinstance(handler, StreamHandler):
            handler._check()
        began = _OnceBegun(task_status)
        observer = Observers([self._observer, began])
        self._generation += 1
        generation = Generation(self._generation, f"{self.group}-member", self.config.rebalance_strategies[0])
        self._member = member = FeedMember(self.group, self.topic_partition.topic, generation, self._commits)
        try:
            outcome = await self._session(member, handler, generation, observer)
        finally:
            self._member = self._feeds = None
        if outcome.fatal is not None and not outcome.failures:
            raise outcome.fatal
        if outcome.failures:
            raise ExceptionGroup(outcome.text(self.group), outcome.all_failures)

    async def _session(
        self, member: FeedMember, handler: ConsumerGroupHandler, generation: Generation, observer: Observer
    ) -> Outcome:
        config = self.config
        around = _Surroundings(
            self.group,
            config,
            observer,
            Backoff.of(config, self._rng),
            ByteBudget(config.fetch_buffer_bytes),
            Interceptors(self._interceptors, observer),
            HandlerTime(),
            self._wall_clock,
        )

        def open_source(offsets: OffsetManager) -> Source:
            log = FeedLog(self._log, self._wall_clock)
            resets = Resets(log, config, observer, around.backoff, offsets.position_moved)
            self._ledger = offsets.ledger
            self._ledger.add({self.topic_partition: self.commit})
            self._feeds = FeedFetcher(
                log,
                lambda: self._log.end_offset,
                self._script,
                resets,
                config,
                observer,
                around.budget,
                self._tell,
            )
            return Source(log, self._feeds, log)

        topic, partition = self.topic_partition
        first = NewAssignment(generation, {topic: (partition,)})
        with around.handler_time.measured():
            return await SessionRun(first, member, handler, around, self._pauses, open_source).run()

    def _take_place(self, step: Literal["end", "lose"], now: bool) -> None:
        if now:
            self._tell(step)
        else:
            self._script.add(self._log.end_offset, step)
            self._look()

    def _tell(self, step: Literal["end", "lose"]) -> None:
        if self._member is None:
            raise RuntimeError(f"{step}(now=True) is for while run() runs")
        if step == "lose":
            self._member.notify(MembershipLost(_REASONS[step]))
        else:
            within = self.config.rebalance_timeout - self.config.rebalance_margin
            self._member.notify(PrepareRebalance(_REASONS[step], trio.current_time() + within))

    def _wall_clock(self) -> float:
        """The time of day: without a mock clock the epoch is when the feed was made, and so it is before trio runs."""
        if not trio.lowlevel.in_trio_run():
            return VIRTUAL_EPOCH
        if isinstance(trio.lowlevel.current_clock(), MockClock):
            return virtual_wall_clock()
        return VIRTUAL_EPOCH + time.monotonic() - self._made

    def _look(self) -> None:
        if self._feeds is not None:
            self._feeds.look()


class _OnceBegun:
    """An observer that tells a nursery's `start` of the claim's."""

    def __init__(self, task_status: trio.TaskStatus[None]) -> None:
        self._task_status: trio.TaskStatus[None] | None = task_status

    def __call__(self, event: Event) -> None:
        if isinstance(event, ClaimStarted) and self._task_status is not None:
            self._task_status.started()
            self._task_status = None
