"""Tests of a handler without a cluster: a session with one claim, whose log the test writes.

All parts that a handler can notice are the real runtime: the session and its order of calls, the claim, marks and
commits, backpressure, interceptors, deadlines. Only brokers (`feed_log`, `feed_fetcher`) and the group's coordinator
(`feed_member`) are replaced.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Literal

import attrs
import trio
from trio.testing import MockClock

from sarameya.config import Config
from sarameya.consumer.resets import Resets
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.error_codes import ErrorCode
from sarameya.errors import SarameyaError
from sarameya.group.delivery.interceptors import ConsumerInterceptor, Interceptors, check_interceptors
from sarameya.group.delivery.pauses import Pauses
from sarameya.group.delivery.time_slices import HandlerTime
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.group.handler_methods import check_handler
from sarameya.group.membership.notices import NewAssignment
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.group.services import HandlerServices
from sarameya.group.session_machine.outcome import SessionOutcome
from sarameya.group.session_machine.runner import SessionRunner
from sarameya.group.source import Source
from sarameya.model import CommittedOffset, Generation, Headers, TopicPartition
from sarameya.observe import ClaimStarted, Event, Observer, Observers
from sarameya.producer.record import ProducerRecord
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.fetch.byte_budget import ByteBudget
from sarameya.protocol.membership.messages import MembershipLost, PrepareRebalance
from sarameya.protocol.offset_ledger import OffsetLedger
from sarameya.protocol.records.batch_codec import build
from sarameya.testing.feed_fetcher import FeedFetcher
from sarameya.testing.feed_log import FeedLog
from sarameya.testing.feed_member import FeedCoordinator, FeedMember
from sarameya.testing.feed_script import FeedScript
from sarameya.testing.feed_services import FeedSender, ensure_topics
from sarameya.testing.virtual_time import VIRTUAL_EPOCH, threads_in_virtual_time, virtual_wall_clock

_REASONS = {"end": "the test revokes the partition", "lose": "the test ends the membership"}


@attrs.frozen(slots=True)
class _Runtime:
    """The `SessionRuntime` of a feed."""

    group: str
    config: Config
    observer: Observer
    backoff: Backoff
    budget: ByteBudget
    interceptors: Interceptors
    handler_time: HandlerTime
    wall_clock: Callable[[], float]


class ClaimFeed:
    """Feeds a handler one partition, without a broker.

        async def test_orders_are_added_up(autojump_clock):
            feed, orders = ClaimFeed("orders"), Orders()
            feed.send(b"3")
            feed.send(b"4")
            feed.end()
            await feed.run(orders)
            assert (orders.total, feed.committed) == (7, 2)

    `send` writes to a log, and `run` is one session of a member that reads it. `end`, `lose` and `fail` have a place
    between messages: they take effect when the handler requests more after all earlier messages. If it reads by
    `Claim.concurrently`, `end` and `lose` also wait until these are marked. Log and commits stay, so a second `run`
    continues at the committed offset. Sessions are those of an eager assignor, even if `Config.rebalance_strategies`
    names a cooperative one: `end` ends the session.

    Timers follow trio's clock. Under a mock clock (`autojump_clock`) the autocommit interval, `max_processing_time` and
    the grace of a rebalance take no time.

    Args:
        topic: The topic.
        partition: The partition.
        at: Log start of the partition.
        committed: The group's committed offset at first; "start": the log start. None: nothing is committed, so
            `Config.offset_initial` decides, as for a new group.
        group: The group id.
        config: The consumer's configuration.
        interceptors: Interceptors of the group.
        seed: Makes the delays of retries the same in every run.

    Raises:
        ConfigError: The interceptors are invalid.
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
        """Events that observers of the group receive."""
        self.sent: list[ProducerRecord] = []
        """Records that a `MessageHandler` has sent to retry topics, or to topics for dead letters."""
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
        self._created_at = time.monotonic()
        self._generation = 0
        self._member: FeedMember | None = None
        self._fetcher: FeedFetcher | None = None

    # -- input of the handler -------------------------------------------------------------------------

    def send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
        *,
        offset: int | None = None,
    ) -> int:
        """Write one message and return its offset.

        Args:
            value: The value.
            key: The key.
            headers: The headers.
            timestamp: Milliseconds since 1970; None: now.
            offset: The message's offset; None: the next one. A later one leaves a gap, as compaction does.

        Raises:
            ValueError: The log has a message at this offset, or at a later one.
        """
        timestamp = int(self._wall_clock() * 1000) if timestamp is None else timestamp
        record = build([(timestamp, key, value, headers)], base_offset=offset or 0, leader_epoch=0)
        if offset is None:
            offset = self._log.append(record).base_offset
        else:
            self._log.append_raw(record, offset)
        self._wake()
        return offset

    def delete_before(self, offset: int) -> None:
        """Delete the messages before an offset, as retention does.

        Raises:
            ValueError: The offset is beyond the log end.
        """
        if offset > self._log.end_offset:
            raise ValueError(f"{self.topic_partition}: the log ends at {self._log.end_offset}, before offset {offset}")
        self._log.delete_before(offset)

    def end(self, *, now: bool = False) -> None:
        """Revoke the partition. The session ends in order, with `partitions_revoked`, `cleanup` and a last commit.

        Args:
            now: Revoke it at once, even if messages are unread.

        Raises:
            RuntimeError: `now` was set, but no session runs.
        """
        self._add_step("end", now)

    def lose(self, *, now: bool = False) -> None:
        """End the membership, as after missed heartbeats: `partitions_lost` is called, and commits are impossible.

        Args:
            now: End it at once, even if messages are unread.

        Raises:
            RuntimeError: `now` was set, but no session runs.
        """
        self._add_step("lose", now)

    def fail(self, error: SarameyaError) -> None:
        """Raise `error` once where the handler reads next.

        Raises:
            TypeError: `error` is not a SarameyaError. Reading raises no other exceptions.
        """
        if not isinstance(error, SarameyaError):
            raise TypeError(f"{error!r} is not a SarameyaError; reading raises no other exceptions")
        self._script.add(self._log.end_offset, error)
        self._wake()

    def fail_commits(self, code: ErrorCode, times: int = 1) -> None:
        """Answer the next commits with an error."""
        self._commits.refusals.extend([code] * times)

    # -- results ----------------------------------------------------------------------------------------

    @property
    def marked(self) -> int | None:
        """The marked offset, committed or not: the next offset to read. None if nothing is marked."""
        mark = self._ledger.marked(self.topic_partition)
        return None if mark is None else mark.offset

    @property
    def committed(self) -> int | None:
        """The committed offset of the group. None if there is none."""
        found = self.commit
        return None if found is None else found.offset

    @property
    def commit(self) -> CommittedOffset | None:
        """The commit with its metadata. None if there is none."""
        return self._commits.committed.get(self.topic_partition)

    # -- running ----------------------------------------------------------------------------------------

    async def run(
        self, handler: ConsumerGroupHandler, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Run one session of `handler`.

        The session ends by `end`, `lose` or `fail`, or because the handler raises, returns or ends it. With a nursery's
        `start`, this returns to the caller once the claim has started.

        Raises:
            ExceptionGroup: ClaimErrors, and the errors of other methods of the handler, as in `ConsumerGroup.consume`.
            GroupError: The coordinator refused a commit (`fail_commits`).
            RuntimeError: A session of this feed runs already.
        """
        if self._member is not None:
            raise RuntimeError("run() is already running; a feed has one claim")
        check_handler(handler)
        claim_start = _ClaimStartObserver(task_status)
        observer = Observers([self._observer, claim_start])
        self._generation += 1
        generation = Generation(self._generation, f"{self.group}-member", self.config.rebalance_strategies[0])
        self._member = member = FeedMember(self.group, self.topic_partition.topic, generation, self._commits)
        try:
            with threads_in_virtual_time():
                outcome = await self._session(member, handler, generation, observer)
        finally:
            self._member = self._fetcher = None
        outcome.raise_failures(self.group)

    async def _session(
        self, member: FeedMember, handler: ConsumerGroupHandler, generation: Generation, observer: Observer
    ) -> SessionOutcome:
        config = self.config
        runtime = _Runtime(
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
            resets = Resets(log, config, observer, runtime.backoff, offsets.position_moved)
            self._ledger = offsets.ledger
            self._ledger.add({self.topic_partition: self.commit})
            self._fetcher = FeedFetcher(
                log,
                lambda: self._log.end_offset,
                self._script,
                resets,
                config,
                observer,
                runtime.budget,
                self._notify,
                lambda: offsets.ledger.in_flight(self.topic_partition),
            )
            return Source(log, self._fetcher, log)

        topic, partition = self.topic_partition
        first = NewAssignment(generation, {topic: (partition,)})
        services = HandlerServices(
            self.group,
            (topic,),
            lambda: nullcontext(FeedSender(self.sent)),
            ensure_topics,
            self._wall_clock,
            observer,
            self._rng,
        )
        async with handler._running(services):
            with runtime.handler_time.measured():
                return await SessionRunner(first, member, handler, runtime, self._pauses, open_source).run()

    def _add_step(self, step: Literal["end", "lose"], now: bool) -> None:
        if now:
            self._notify(step)
        else:
            self._script.add(self._log.end_offset, step)
            self._wake()

    def _notify(self, step: Literal["end", "lose"]) -> None:
        if self._member is None:
            raise RuntimeError(f"{step}(now=True) needs a running session; call run() first")
        if step == "lose":
            self._member.notify(MembershipLost(_REASONS[step]))
        else:
            grace = self.config.rebalance_timeout - self.config.rebalance_margin
            self._member.notify(PrepareRebalance(_REASONS[step], trio.current_time() + grace))

    def _wall_clock(self) -> float:
        """Return the time of day, starting at VIRTUAL_EPOCH.

        Without a mock clock, and before trio runs, time counts from the creation of the feed.
        """
        if not trio.lowlevel.in_trio_run():
            return VIRTUAL_EPOCH
        if isinstance(trio.lowlevel.current_clock(), MockClock):
            return virtual_wall_clock()
        return VIRTUAL_EPOCH + time.monotonic() - self._created_at

    def _wake(self) -> None:
        if self._fetcher is not None:
            self._fetcher.wake()


class _ClaimStartObserver:
    """An observer that reports to a nursery's `start` when the claim has started."""

    def __init__(self, task_status: trio.TaskStatus[None]) -> None:
        self._task_status: trio.TaskStatus[None] | None = task_status

    def __call__(self, event: Event) -> None:
        if isinstance(event, ClaimStarted) and self._task_status is not None:
            self._task_status.started()
            self._task_status = None
