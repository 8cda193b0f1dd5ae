"""Commits: autocommit, `commit()`, and the last commit of a session. The shell around the pure offset ledger.

Commits are sent one after the other, each under the generation that is current when it is sent: a session may outlast a
rebalance (KIP-429). Between the responses to join and sync no commit is sent. Callers of `commit()` share a round. A
call during a round waits for the next round, which includes the marks made meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

import trio

from sarameya.config import Config
from sarameya.consumer.resets import Move
from sarameya.error_codes import ErrorCode
from sarameya.errors import (
    ADVICE,
    CommitError,
    KafkaError,
    SarameyaError,
    UnsupportedVersionError,
    kafka_error,
)
from sarameya.group.offsets.commit_round import Round
from sarameya.model import NO_GENERATION, CommittedOffset, Generation, TopicPartition
from sarameya.net.coordinator import FetchedOffsets
from sarameya.net.retries import Retries
from sarameya.observe import CommitFailed, Committed, Observer
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.commit_metadata import metadata_fault
from sarameya.protocol.membership.messages import CommitRefused, CoordinatorLost
from sarameya.protocol.membership.states import Reaction, Request, reaction_to
from sarameya.protocol.offset_ledger import OffsetLedger

_IN_USE = (
    "the group is in use by subscribed members, and only they may commit; stop them, or read under another group id"
)
"""Advice when a group accepts no commits of non-members."""

_ENDS_MEMBERSHIP = frozenset({Reaction.FORGET_MEMBER, Reaction.DROP_GENERATION, Reaction.FATAL})


class OffsetClient(Protocol):
    """Stores and returns a group's committed offsets: a `CoordinatorClient`."""

    async def commit(
        self, node_id: int, generation: int, member_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, int]:
        """Commit offsets. Return the error code of each partition."""

    async def fetch_offsets(self, node_id: int, partitions: Iterable[TopicPartition]) -> FetchedOffsets: ...


class Coordination(Protocol):
    """The coordinator, and the generation to commit under.

    Implemented by a group's `Member`, and by the `CoordinatorFinder` of a consumer that is not a member.
    """

    @property
    def client(self) -> OffsetClient: ...

    async def coordinator(self) -> int | None:
        """Return the coordinator's node id; wait while it is unknown. Return None once the membership is over."""

    async def commit_generation(self) -> Generation | None:
        """Return the generation to commit under; None once the membership is over.

        Waits while the coordinator accepts no commits.
        """

    def is_settled(self, generation: Generation) -> bool:
        """Return whether `generation` is current and no rebalance is under way.

        If not, a refused commit of this generation is not posted: the membership knows already that it is over.
        """

    def post(self, event: CommitRefused | CoordinatorLost) -> None:
        """Report a result of a commit or an offset fetch to the membership."""


def _ignore(offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
    """Default of `on_commit`."""


class OffsetManager:
    """Offsets of the owned partitions: committed, marked, and being committed."""

    def __init__(
        self,
        group: str,
        coordination: Coordination,
        config: Config,
        observer: Observer,
        backoff: Backoff,
        on_commit: Callable[[Mapping[TopicPartition, CommittedOffset]], None] = _ignore,
    ) -> None:
        """Create an offset manager without partitions.

        Args:
            group: Group id.
            coordination: The coordinator, and the generation to commit under.
            config: Options of autocommit.
            observer: Receives events.
            backoff: Delays between retries.
            on_commit: Called with the committed offsets after each commit.
        """
        self.ledger = OffsetLedger()
        self.group = group
        self._coordination = coordination
        self._config = config
        self._observer = observer
        self._backoff = backoff
        self._on_commit = on_commit
        self._round = Round()
        # Set if a round is requested.
        self._wanted = trio.Event()
        # Bounds the wait for a request: its deadline is the end of the autocommit interval.
        self._waiting = trio.CancelScope()
        self._waiting_since = 0.0
        self._is_over = False
        # Partitions of the commit that is under way, and its start.
        self._under_way: tuple[frozenset[TopicPartition], float] = (frozenset(), 0.0)
        # Start of the first commit that the coordinator has not accepted, for each partition.
        self._not_accepted: dict[TopicPartition, float] = {}

    def uncommitted_since(self, partition: TopicPartition) -> float | None:
        """Return the time since which the coordinator has not accepted this partition's marks, on trio's clock.

        It is the start of the first of the failed commits. None if the last commit was accepted.
        """
        return self._not_accepted.get(partition)

    def committing_since(self, partition: TopicPartition) -> float | None:
        """Return the start of the partition's commit that is under way, on trio's clock; None if there is none."""
        partitions, since = self._under_way
        return since if partition in partitions else None

    async def fetch(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, CommittedOffset | None]:
        """Return the committed offsets, as `look_up` does, and put them into the ledger.

        Uncommitted marks are kept.
        """
        found = await self.look_up(partitions)
        self.ledger.add(found)
        for partition in found:
            self._not_accepted.pop(partition, None)
        return found

    async def look_up(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, CommittedOffset | None]:
        """Return the group's committed offsets; None for a partition without one. Retries until all are known.

        If the coordinator reports an error or an unstable offset, the request is retried: that never means "nothing
        committed".

        Raises:
            KafkaError: The coordinator returned an error that no retry can fix.
            RetriesExhaustedError: The options allow no further retry.
            CommitError: The membership is over.
        """
        wanted = tuple(partitions)
        found: dict[TopicPartition, CommittedOffset | None] = {}
        retries = self._retries("offset fetch")
        while wanted and (cause := await self._fetch_once(wanted, found)) is not None:
            await retries.wait(cause)
        return found

    async def _fetch_once(
        self, wanted: tuple[TopicPartition, ...], found: dict[TopicPartition, CommittedOffset | None]
    ) -> str | None:
        """Send the request once, and fill `found`. Return the reason to retry, or None."""
        node_id = await self._coordination.coordinator()
        if node_id is None:
            raise self._too_late()
        try:
            answer = await self._coordination.client.fetch_offsets(node_id, wanted)
        except UnsupportedVersionError:
            raise
        except SarameyaError as error:
            self._coordination.post(CoordinatorLost(node_id, str(error)))
            return str(error)
        codes = [answer.code, *(code for code, _ in answer.partitions.values())]
        missing = [tp for tp in wanted if tp not in answer.partitions]
        if missing and not answer.code:
            return f"the coordinator left {missing[0]} out of its answer"
        if (code := next(filter(None, codes), 0)) == 0:
            found.update({tp: answer.partitions[tp][1] for tp in wanted})
            return None
        reaction = reaction_to(Request.OFFSET_FETCH, code)
        if reaction is Reaction.FATAL or reaction is Reaction.RAISE:
            raise kafka_error(code, f"offset fetch of group {self.group!r}")
        if reaction in _ENDS_MEMBERSHIP:
            raise kafka_error(code, f"offset fetch of group {self.group!r}", CommitError)
        if reaction is Reaction.FIND_COORDINATOR:
            self._coordination.post(CoordinatorLost(node_id, ErrorCode.describe(code)))
        return ErrorCode.describe(code)

    async def run(self) -> None:
        """Send requested rounds; with autocommit also one at the end of each interval with new marks.

        Runs until cancelled.
        """
        try:
            while True:
                await self._due()
                await self._send_round()
        finally:
            self.ledger.notify_next_mark(None)
            self._is_over = True
            self._round.error = self._too_late()
            self._round.done.set()

    async def _due(self) -> None:
        """Wait until a round must be sent. The task does not wake up if there is nothing to commit."""
        with trio.CancelScope() as self._waiting:
            self._waiting_since = trio.current_time()
            if self._config.autocommit:
                # Register first, then check: a thread may mark at any time.
                self.ledger.notify_next_mark(partial(self._on_mark, trio.lowlevel.current_trio_token()))
                if self.ledger.dirty():
                    self._wake_after_interval()
            await self._wanted.wait()
        self._wanted = trio.Event()
        if self._waiting.cancelled_caught:
            self._round.takes_all = True

    def _on_mark(self, token: trio.lowlevel.TrioToken) -> None:
        if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is token:
            self._wake_after_interval()
        else:  # handlers may mark in a worker thread, or in a `trio.run` there
            token.run_sync_soon(self._wake_after_interval)

    def _wake_after_interval(self) -> None:
        """Wake up at the end of the current interval.

        Intervals count from the last round, even if no task woke up for them.
        """
        now, interval = trio.current_time(), self._config.autocommit_interval
        self._waiting.deadline = now + interval - (now - self._waiting_since) % interval

    async def _send_round(self) -> None:
        this, self._round = self._round, Round()
        try:
            await self._commit_dirty(this)
        except SarameyaError as error:
            this.error = error
        except trio.Cancelled:
            this.error = self._too_late()
            raise
        finally:
            self._under_way = (frozenset(), 0.0)
            this.done.set()
        if (failure := this.unreported_error()) is not None:
            self._observer(CommitFailed(self.group, "; ".join([str(failure), *getattr(failure, "__notes__", ())])))

    def _too_late(self) -> CommitError:
        return CommitError(
            ErrorCode.ILLEGAL_GENERATION,
            f"commit of group {self.group!r}",
            "the membership or the session is over; commit before consume_claim and cleanup return",
        )

    async def commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Commit every mark made so far, or those of `partitions`, and wait for the coordinator's response.

        During a cooperative rebalance this may wait for the new generation.

        Raises:
            CommitError: The membership or the session is over.
            TopicAuthorizationError: The group may not commit for one of these topics. The others are committed.
            KafkaError: The coordinator refused one of these partitions. The others are committed.
        """
        if self._is_over:
            raise self._too_late()
        self._wanted.set()
        await self._round.wait(None if partitions is None else frozenset(partitions))

    async def commit_last(self) -> None:
        """Commit all marks before partitions are released; without autocommit, only those in recreated topics.

        A failure is only reported to observers: the partition's next owner reads the messages again.
        """
        partitions = None if self._config.autocommit else self.ledger.recreated
        if partitions is None or partitions:
            try:
                await self.commit(partitions)
            except SarameyaError as error:
                self._observer(CommitFailed(self.group, str(error)))

    def position_moved(self, move: Move) -> None:
        """Move the mark to a new position: the old position was reset, since the log did not have it.

        With autocommit the moved mark is committed, so that the next owner does not have to reset the position again.
        """
        moved = self.ledger.position_moved(
            move.partition, move.before, move.after, is_first=move.is_first, position_since=move.position_since
        )
        if moved and self._config.autocommit:
            self.commit_nowait()

    def commit_nowait(self) -> None:
        """Commit every mark in the background. A failure is reported to observers."""
        self._round.takes_all = True
        self._wanted.set()

    async def _commit_dirty(self, this: Round) -> None:
        """Commit the round's marks. A retry sends the newest marks, without refused partitions."""
        retries, began = self._retries("commit"), trio.current_time()
        while left := {
            tp: offset for tp, offset in self.ledger.dirty().items() if tp not in this.refused and this.takes(tp)
        }:
            self._under_way = (frozenset(left), began)
            for partition in left:
                self._not_accepted.setdefault(partition, began)
            self._refuse_unsendable(left, this)
            if not left:
                break
            codes, cause = await self._send_once(left)
            committed = {tp: left[tp] for tp, code in codes.items() if code == 0}
            for partition in committed:
                self._not_accepted.pop(partition, None)
            if committed:
                self.ledger.acknowledge(committed)
                self._observer(Committed(self.group, {tp: offset.offset for tp, offset in committed.items()}))
                self._on_commit(committed)
            for partition, code in codes.items():
                too_large = code == ErrorCode.OFFSET_METADATA_TOO_LARGE
                if too_large and self.ledger.metadata_refused(partition, left[partition]):
                    continue  # sent again, with less metadata
                if this.is_final(partition, code):
                    this.refused[partition] = kafka_error(code, f"commit of {partition} by group {self.group!r}")
            if not left.keys() - committed.keys() - this.refused.keys():
                break  # marks made meanwhile belong to the next round
            await retries.wait(cause)

    def _refuse_unsendable(self, offsets: dict[TopicPartition, CommittedOffset], this: Round) -> None:
        """Remove offsets that no request can contain: each request with such an offset would fail, with all others.

        The error is not a CommitError: another generation cannot commit these offsets either.
        """
        for partition, offset in tuple(offsets.items()):
            if (fault := metadata_fault(offset.metadata)) is not None:
                del offsets[partition]
                what = f"commit of {partition} at offset {offset.offset} by group {self.group!r}"
                this.refused[partition] = KafkaError(fault.code, what, fault.advice)

    async def _send_once(
        self, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> tuple[dict[TopicPartition, int], str]:
        """Send one commit. Return the error code of each partition in the response, and the reason to retry others."""
        generation = await self._coordination.commit_generation()
        node_id = await self._coordination.coordinator() if generation is not None else None
        if generation is None or node_id is None:
            raise self._too_late()
        self.ledger.send(offsets)
        try:
            codes = await self._coordination.client.commit(node_id, generation.id, generation.member_id, offsets)
        except UnsupportedVersionError:
            raise
        except SarameyaError as error:
            self._coordination.post(CoordinatorLost(node_id, str(error)))
            return {}, str(error)
        codes = {tp: code for tp, code in codes.items() if tp in offsets}
        cause = "the coordinator left partitions out of its answer"
        for code in filter(None, codes.values()):
            cause = ErrorCode.describe(code)
            reaction = reaction_to(Request.COMMIT, code)
            if reaction in _ENDS_MEMBERSHIP:
                if not self._coordination.is_settled(generation):
                    break  # a new generation has started meanwhile: retry under it
                self._coordination.post(CommitRefused(generation.id, code))
                raise self._refused(code, generation)
            if reaction is Reaction.FIND_COORDINATOR:
                self._coordination.post(CoordinatorLost(node_id, cause))
        return codes, cause

    def _refused(self, code: int, generation: Generation) -> KafkaError:
        if generation.id == NO_GENERATION and code == ErrorCode.UNKNOWN_MEMBER_ID:
            return CommitError(code, f"commit for group {self.group!r}, without being a member", _IN_USE)
        if generation.id == NO_GENERATION:
            return kafka_error(code, f"commit for group {self.group!r}", CommitError)
        # Always a CommitError: if the code is fatal, the membership raises it from `consume`.
        return CommitError(
            code,
            f"commit of group {self.group!r}, generation {generation.id}",
            ADVICE.get(ErrorCode.of(code), ""),
        )

    def _retries(self, what: str) -> Retries:
        return Retries(f"{what} of group {self.group}", self._backoff, self._observer, kind=what.replace(" ", "_"))
