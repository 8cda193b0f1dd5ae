"""What a consumer without a group protocol reads while it is open: its claims, where they begin, and how all ends.

Owns the claims, the fetcher that feeds them and, with a group id, the offset manager. The user's side is
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
from sarameya.group.coordinator_finder import CoordinatorFinder
from sarameya.group.offset_manager import OffsetManager
from sarameya.group.pauses import Pauses
from sarameya.group.runtime import Runtime
from sarameya.group.start_offset import Start, StartOffset, check_policies
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.net.open_calls import OpenCalls
from sarameya.observe import ClaimStarted
from sarameya.offset_policy import OffsetPolicy, describe_policy

CLOSED = "a Consumer works inside of its block only: `async with Consumer(...) as consumer`"


class Reading:
    """Reads partitions while `run` runs, until `close`."""

    def __init__(self, runtime: Runtime, pauses: Pauses) -> None:
        self.offsets: OffsetManager | None = None
        """None without a group id."""
        config, observer, backoff = runtime.config, runtime.observer, runtime.backoff
        on_reset: OnReset = _nobody_marks
        on_recreated: Callable[[TopicPartition], None] = _nobody_marks
        if runtime.group:
            self.offsets = OffsetManager(
                runtime.group, CoordinatorFinder(runtime), config, observer, backoff, runtime.interceptors.committed
            )
            on_reset, on_recreated = self.offsets.position_moved, self.offsets.ledger.topic_gone
        self.lookup = OffsetLookup(runtime.pool, runtime.metadata, config, observer, backoff, runtime.wall_clock)
        self.claims: dict[TopicPartition, Claim] = {}
        self._runtime = runtime
        self._pauses = pauses
        resets = Resets(self.lookup, config, observer, backoff, on_reset)
        self._fetcher = Fetcher(
            runtime.pool, runtime.metadata, resets, config, observer, backoff, runtime.budget, on_recreated
        )
        self._opening: set[TopicPartition] = set()
        self.calls = OpenCalls(CLOSED)
        """Whatever is asked for and waits for it."""
        self._is_closed = False

    async def run(self, running: trio.Event) -> None:
        """Feed the claims and send the commits; `running` is set when both can be asked for. Runs until cancelled."""
        with self._runtime.pool.refusals(self._fail):
            async with trio.open_nursery() as nursery:
                await nursery.start(self._fetcher.run)
                if self.offsets is not None:
                    nursery.start_soon(self.offsets.run)
                running.set()

    def _fail(self, error: SarameyaError) -> None:
        """Nothing more can be read."""
        for claim in self.claims.values():
            claim._consumer.fail(error)

    async def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        """The topic's partitions, as the cluster tells them now."""
        metadata = await self._runtime.metadata.reach_cluster((topic,))
        return tuple(TopicPartition(topic, number) for number in sorted(metadata.topics[topic].partitions))

    async def reach(self, partitions: Iterable[TopicPartition]) -> None:
        """Have metadata that tells of these. Raises UnknownTopicError for a partition that its topic does not have."""
        metadata = await self._runtime.metadata.reach_cluster({partition.topic for partition in partitions})
        for partition in partitions:
            if metadata.partition(partition) is None:
                last = max(metadata.topics[partition.topic].partitions)
                advice = f"topic {partition.topic!r} has the partitions 0 to {last}"
                raise UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition}", advice)

    async def begin(self, chosen: Mapping[TopicPartition, StartOffset]) -> dict[TopicPartition, Claim]:
        """Find out where each of these begins, and begin to read them. Raises ValueError for what is read already."""
        for partition in chosen:
            if partition in self.claims or partition in self._opening:
                raise ValueError(f"{partition} is being read already; a second claim needs a Consumer of its own")
        self._opening |= chosen.keys()
        try:
            await self.reach(chosen)
            return self._start(await _find_starts(chosen, self.offsets, self.lookup, self._runtime.config))
        finally:
            self._opening -= chosen.keys()

    def _start(self, starts: Mapping[TopicPartition, Start]) -> dict[TopicPartition, Claim]:
        if self._is_closed:
            raise RuntimeError(CLOSED)
        config, claims = self._runtime.config, {}
        intercept, handler_time = self._runtime.interceptors.consume, self._runtime.handler_time
        for partition, start in starts.items():
            consumer = self._fetcher.feed(partition, start.offset, start.leader_epoch, start.told_in)
            claim = claims[partition] = Claim(consumer, config, intercept, handler_time)
            self._pauses.watch(claim)
            self._runtime.observer(ClaimStarted(partition, start.offset, start.why))
        self.claims |= claims
        self._fetcher.read(claim._consumer for claim in claims.values())
        return claims

    def end(self, claim: Claim) -> None:
        """Read this one no longer, if it is still read: its iterators end."""
        if self.claims.get(claim.topic_partition) is claim:
            self._fetcher.release([claim._consumer])
            del self.claims[claim.topic_partition]
            self._pauses.unwatch(claim)
            claim._end()
            claim._slice.take_back()
            self._runtime.observer(claim._farewell())

    def close(self) -> None:
        """End every claim, and whatever is still asked for."""
        self._is_closed = True
        self.calls.close()
        self._fetcher.stop()
        for claim in tuple(self.claims.values()):
            self.end(claim)

    async def commit_last(self) -> SarameyaError | None:
        """With autocommit, commit what is marked: shielded, within the close timeout. What it failed with."""
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


def _nobody_marks(what: Move | TopicPartition) -> None:
    """Without a group there is no mark that would have to move with the position, or to be forgotten."""


async def _find_starts(
    chosen: Mapping[TopicPartition, StartOffset], offsets: OffsetManager | None, lookup: Lookup, config: Config
) -> dict[TopicPartition, Start]:
    """Return the start of each partition, as it was `chosen`. `offsets`' ledger has the group's commits then.

    `committed` needs `offsets`. Where nothing is committed, `Config.offset_initial` decides, and is committed at once.

    Raises:
        NoCommittedOffsetError: Nothing is committed, and `Config.offset_initial` is `fail`.
        CommitError: The group takes no commits.
    """
    committed = await _take_up(offsets, chosen, config) if offsets is not None else {}
    starts: dict[TopicPartition, Start] = {}
    policies: dict[TopicPartition, OffsetPolicy] = {}
    for partition, choice in chosen.items():
        if isinstance(choice, int):
            starts[partition] = Start(choice, "given")
        elif choice != "committed":
            policies[partition] = choice
        elif (commit := committed[partition]) is not None:
            starts[partition] = Start(commit.offset, "committed", commit.leader_epoch)
        else:
            policies[partition] = config.offset_initial_of(partition.topic)
    check_policies(policies, offsets.group if offsets is not None else "")
    if policies:
        for partition, place in (await lookup.find(policies)).items():
            starts[partition] = Start.at(place, describe_policy(policies[partition]))
    if offsets is not None:
        # So that the next start before the first mark does not resolve it anew and skip. Marks are the user's.
        ledger = offsets.ledger
        new = [tp for tp in policies if chosen[tp] == "committed" and ledger.marked(tp) is None]
        for partition in new:
            start = starts[partition]
            ledger.mark(partition, CommittedOffset(start.offset, leader_epoch=start.leader_epoch))
        if new:
            await offsets.commit(new)
    return {partition: starts[partition] for partition in chosen}


async def _take_up(
    offsets: OffsetManager, partitions: Iterable[TopicPartition], config: Config
) -> Mapping[TopicPartition, CommittedOffset | None]:
    """Return the committed offsets, after a commit of what is marked. The ledger starts with them."""
    if config.autocommit and (marked := offsets.ledger.dirty().keys() & set(partitions)):
        await offsets.commit(marked)
    return await offsets.fetch(partitions)
