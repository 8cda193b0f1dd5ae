"""Claims of a consumer without the group protocol: their partitions, their start offsets, and the last commit.

Owns the claims, the fetcher that feeds them and, with a group id, the offset manager. The user's interface is
`standalone.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import trio

from sarameya.config import Config
from sarameya.consumer.fetcher import Fetcher
from sarameya.consumer.offset_lookup import Lookup, OffsetLookup
from sarameya.consumer.resets import Move, OnReset, Resets
from sarameya.error_codes import ErrorCode
from sarameya.errors import RequestTimeoutError, SarameyaError, UnknownTopicError
from sarameya.group.claim import Claim
from sarameya.group.delivery.pauses import Pauses
from sarameya.group.membership.coordinator_finder import CoordinatorFinder
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.group.offsets.start_offset import Start, StartOffset, check_policies, choose_start
from sarameya.group.runtime import Runtime
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.net.open_calls import OpenCalls
from sarameya.observe import ClaimStarted
from sarameya.offset_policy import OffsetPolicy, describe_policy

CLOSED = "a Consumer works inside its block only: `async with Consumer(...) as consumer`"


class StandaloneClaims:
    """Claims that a standalone consumer has started. They get messages while `run` runs, until `close`."""

    def __init__(self, runtime: Runtime, pauses: Pauses) -> None:
        self.offsets: OffsetManager | None = None
        """None without a group id."""
        config, observer, backoff = runtime.config, runtime.observer, runtime.backoff
        on_reset: OnReset = _ignore
        on_recreated: Callable[[TopicPartition], None] = _ignore
        if runtime.group:
            self.offsets = OffsetManager(
                runtime.group, CoordinatorFinder(runtime), config, observer, backoff, runtime.interceptors.committed
            )
            on_reset, on_recreated = self.offsets.position_moved, self.offsets.ledger.topic_recreated
        self.lookup = OffsetLookup(runtime.pool, runtime.metadata, config, observer, backoff, runtime.wall_clock)
        self.claims: dict[TopicPartition, Claim] = {}
        self._runtime = runtime
        self._pauses = pauses
        resets = Resets(self.lookup, config, observer, backoff, on_reset)
        self._fetcher = Fetcher(
            runtime.pool, runtime.metadata, resets, config, observer, backoff, runtime.budget, on_recreated
        )
        self._starting: set[TopicPartition] = set()
        self.calls = OpenCalls(CLOSED)
        """Calls of the user that are waiting for a result."""
        self._is_closed = False

    async def run(self, running: trio.Event) -> None:
        """Feed the claims and send commits until cancelled; `running` is set once both have started."""
        with self._runtime.pool.refusals(self._fail):
            async with trio.open_nursery() as nursery:
                await nursery.start(self._fetcher.run)
                if self.offsets is not None:
                    nursery.start_soon(self.offsets.run)
                running.set()

    def _fail(self, error: SarameyaError) -> None:
        """Fail all claims: nothing more can be read."""
        for claim in self.claims.values():
            claim._consumer.fail(error)

    async def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the topic's partitions, according to the cluster now.

        Raises:
            UnknownTopicError: The topic was not found within `Config.bootstrap_timeout` seconds.
            TopicAuthorizationError: The client may not describe the topic.
            ConnectError: No broker answered within that time.
            TokenError: No credentials were available within that time.
            AuthenticationError: A broker refuses this client.
        """
        metadata = await self._runtime.metadata.wait_for_topics((topic,))
        return tuple(TopicPartition(topic, number) for number in sorted(metadata.topics[topic].partitions))

    async def check_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Check with the cluster that these partitions exist.

        Raises:
            UnknownTopicError: A topic does not exist, or does not have the partition.
            SarameyaError: The cluster was not reached, or refused the request: as for `partitions_of`.
        """
        metadata = await self._runtime.metadata.wait_for_topics({partition.topic for partition in partitions})
        for partition in partitions:
            if metadata.partition(partition) is None:
                last = max(metadata.topics[partition.topic].partitions)
                advice = f"topic {partition.topic!r} has the partitions 0 to {last}"
                raise UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition}", advice)

    async def start(self, chosen: Mapping[TopicPartition, StartOffset]) -> dict[TopicPartition, Claim]:
        """Find the start offsets of these partitions, and start a claim of each.

        Raises:
            ValueError: A partition is being read already.
            UnknownTopicError: A topic or a partition does not exist.
            TopicAuthorizationError: The client may not read a topic.
            GroupAuthorizationError: The client may not use the group.
            NoCommittedOffsetError: Nothing is committed, and `Config.offset_initial` is `fail`.
            CommitError: The group accepts no commits.
            RuntimeError: `close` was called meanwhile.
            SarameyaError: The cluster was not reached, or refused a request for another reason.
        """
        for partition in chosen:
            if partition in self.claims or partition in self._starting:
                raise ValueError(f"{partition} is being read already; a second claim needs a Consumer of its own")
        self._starting |= chosen.keys()
        try:
            await self.check_partitions(chosen)
            return self._add(await _find_starts(chosen, self.offsets, self.lookup, self._runtime.config))
        finally:
            self._starting -= chosen.keys()

    def _add(self, starts: Mapping[TopicPartition, Start]) -> dict[TopicPartition, Claim]:
        if self._is_closed:
            raise RuntimeError(CLOSED)
        config, claims = self._runtime.config, {}
        intercept, handler_time = self._runtime.interceptors.consume, self._runtime.handler_time
        ledger = None if self.offsets is None else self.offsets.ledger
        for partition, start in starts.items():
            consumer = self._fetcher.feed(partition, start.offset, start.leader_epoch, start.lookup_epoch)
            claim = claims[partition] = Claim(consumer, config, intercept, handler_time, ledger)
            self._pauses.watch(claim)
            self._runtime.observer(ClaimStarted(partition, start.offset, start.why))
        self.claims |= claims
        self._fetcher.read(claim._consumer for claim in claims.values())
        return claims

    def stop(self, claim: Claim) -> None:
        """Stop reading this claim, if it is still read: its iterators end."""
        if self.claims.get(claim.topic_partition) is claim:
            self._fetcher.release([claim._consumer])
            del self.claims[claim.topic_partition]
            self._pauses.unwatch(claim)
            claim._end()
            claim._slice.release_messages()
            self._runtime.observer(claim._end_event())

    def close(self) -> None:
        """Stop every claim, and abort waiting calls."""
        self._is_closed = True
        self.calls.close()
        self._fetcher.stop()
        for claim in tuple(self.claims.values()):
            self.stop(claim)

    async def commit_last(self) -> SarameyaError | None:
        """Commit the marks if autocommit is on, shielded, within the close timeout. Return the error, or None."""
        config, group = self._runtime.config, self._runtime.group
        if self.offsets is None or not config.autocommit:
            return None
        with trio.CancelScope(shield=True, deadline=trio.current_time() + config.close_timeout):
            try:
                await self.offsets.commit()
            except SarameyaError as error:
                return error
            return None
        return RequestTimeoutError(
            f"the last commit for group {group!r} was not answered within close_timeout ({config.close_timeout:g} s)"
        )


def _ignore(change: Move | TopicPartition) -> None:
    """Do nothing: without a group there are no marks to move or to drop."""


async def _find_starts(
    chosen: Mapping[TopicPartition, StartOffset], offsets: OffsetManager | None, lookup: Lookup, config: Config
) -> dict[TopicPartition, Start]:
    """Return the start of each partition according to its choice.

    A choice may be `committed` only with `offsets`. If nothing is committed for such a partition, its start offset
    comes from `Config.offset_initial` and is committed at once. Afterwards the ledger of `offsets` has the committed
    offset of each partition that has one.

    Raises:
        NoCommittedOffsetError: Nothing is committed, and `Config.offset_initial` is `fail`.
        CommitError: The group accepts no commits.
        SarameyaError: A request for offsets failed, or the commit did.
    """
    committed = await _committed_offsets(offsets, chosen, config) if offsets is not None else {}
    starts: dict[TopicPartition, Start] = {}
    policies: dict[TopicPartition, OffsetPolicy] = {}
    for partition, choice in chosen.items():
        given: Start | OffsetPolicy | None
        match choice:
            case "committed":
                given = None
            case int():
                given = Start(choice, "given")
            case _:
                given = choice
        start = choose_start(given, committed.get(partition), config.offset_initial_of(partition.topic))
        if isinstance(start, Start):
            starts[partition] = start
        else:
            policies[partition] = start
    check_policies(policies, offsets.group if offsets is not None else "")
    if policies:
        for partition, place in (await lookup.find(policies)).items():
            starts[partition] = Start.at(place, describe_policy(policies[partition]))
    if offsets is not None:
        # Otherwise a restart before the first mark would look up new offsets, and skip records. A user's mark is kept.
        ledger = offsets.ledger
        new = [tp for tp in policies if chosen[tp] == "committed" and ledger.marked(tp) is None]
        for partition in new:
            start = starts[partition]
            ledger.mark(partition, CommittedOffset(start.offset, leader_epoch=start.leader_epoch))
        if new:
            await offsets.commit(new)
    return {partition: starts[partition] for partition in chosen}


async def _committed_offsets(
    offsets: OffsetManager, partitions: Iterable[TopicPartition], config: Config
) -> Mapping[TopicPartition, CommittedOffset | None]:
    """Commit the marks of these partitions (with autocommit), then fetch their committed offsets into the ledger.

    Raises:
        SarameyaError: The commit or the request failed.
    """
    if config.autocommit and (marked := offsets.ledger.dirty().keys() & set(partitions)):
        await offsets.commit(marked)
    return await offsets.fetch(partitions)
