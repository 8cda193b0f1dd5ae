"""Commits: autocommit, `commit()`, and the last one of a session. The ledger is pure; this is its shell.

Commits go out one after the other, in order, each under the generation that holds when it is sent: a session may
outlive a rebalance (KIP-429), and between the join's answer and the sync's commits are held. Callers of `commit()`
share a round: whoever asks while one is under way waits for the next, which takes what was marked meanwhile.
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
from sarameya.group.commit_round import Round
from sarameya.model import NO_GENERATION, CommittedOffset, Generation, TopicPartition
from sarameya.net.coordinator import FetchedOffsets
from sarameya.net.retries import Retries
from sarameya.observe import CommitFailed, Committed, Observer
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.commit_metadata import metadata_fault
from sarameya.protocol.membership.messages import CommitRefused, CoordinatorLost
from sarameya.protocol.offset_ledger import OffsetLedger
from sarameya.protocol.reactions import Reaction, Request, reaction_to

_IN_USE = (
    "the group is in use by subscribed members, and only they may commit; stop them, or read under another group id"
)
"""What it means that a group takes no commits of those who are no members."""

_ENDS_MEMBERSHIP = frozenset({Reaction.FORGET_MEMBER, Reaction.DROP_GENERATION, Reaction.FATAL})


class CommittedOffsets(Protocol):
    """Who is asked for a group's commits, and given new ones: a `CoordinatorClient`."""

    async def commit(
        self, node_id: int, generation: int, member_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, int]:
        """The code that each partition's commit was answered with."""

    async def fetch_offsets(self, node_id: int, partitions: Iterable[TopicPartition]) -> FetchedOffsets: ...


class Coordination(Protocol):
    """Who knows the coordinator, and under which generation it takes commits: a group's `Member`, or, where nobody
    is a member, `CoordinatorFinder`."""

    @property
    def client(self) -> CommittedOffsets: ...

    async def coordinator(self) -> int | None:
        """The coordinator's node id; waits while none is known. None: no longer a member."""

    async def commit_generation(self) -> Generation | None:
        """The generation to commit under; waits while the coordinator takes no commits. None: no longer a member."""

    def is_settled(self, generation: Generation) -> bool:
        """Whether `generation` is the present one and no rebalance is under way: then what refuses it is news."""

    def post(self, event: CommitRefused | CoordinatorLost) -> None:
        """Tell what a commit or a fetch found out."""


def _nobody(offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
    """Nobody is told of commits."""


class OffsetManager:
    """Offsets of what is owned: what the group had committed, what the handler marks, what goes out."""

    def __init__(
        self,
        group: str,
        coordination: Coordination,
        config: Config,
        observer: Observer,
        backoff: Backoff,
        on_commit: Callable[[Mapping[TopicPartition, CommittedOffset]], None] = _nobody,
    ) -> None:
        """`on_commit` is told what the coordinator has taken, whenever it has."""
        self.ledger = OffsetLedger()
        self.group = group
        self._coordination = coordination
        self._config = config
        self._observer = observer
        self._backoff = backoff
        self._on_commit = on_commit
        self._round = Round()
        self._wanted = trio.Event()
        self._waiting = trio.CancelScope()
        self._waiting_since = 0.0
        self._is_over = False
        # Which partitions' marks are on their way, and since when.
        self._under_way: tuple[frozenset[TopicPartition], float] = (frozenset(), 0.0)
        # Since when it was asked to take marks of which, and has taken none.
        self._not_taken: dict[TopicPartition, float] = {}

    def uncommitted_since(self, partition: TopicPartition) -> float | None:
        """Since when, on trio's clock, the coordinator has been asked to take this one's marks and has taken none, in
        however many commits; None where it took the last one."""
        return self._not_taken.get(partition)

    def committing_since(self, partition: TopicPartition) -> float | None:
        """Since when, on trio's clock, the coordinator has been asked to take this one's mark; None where it is not."""
        partitions, since = self._under_way
        return since if partition in partitions else None

    async def fetch(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, CommittedOffset | None]:
        """`look_up`; and the ledger begins there, but for marks that are still to be committed."""
        found = await self.look_up(partitions)
        self.ledger.add(found)
        for partition in found:
            self._not_taken.pop(partition, None)
        return found

    async def look_up(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, CommittedOffset | None]:
        """What the group has committed. Retries until it is known for all.

        An unstable or failed answer is asked again, never taken for "nothing committed". Raises KafkaError
        for what no retry mends, RetriesExhaustedError, CommitError where the membership is over.
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
        """Ask once, filling `found`; why it has to be asked again, or None."""
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
        """Send the rounds that are asked for, and with autocommit one at the end of every interval in which marks
        were made. Runs until cancelled."""
        try:
            while True:
                await self._due()
                await self._send_round()
        finally:
            self.ledger.tell_of_next_mark(None)
            self._is_over = True
            self._round.error = self._too_late()
            self._round.done.set()

    async def _due(self) -> None:
        """Wait until a round must go out. Without anything to commit there is nothing to wake up for."""
        with trio.CancelScope() as self._waiting:
            self._waiting_since = trio.current_time()
            if self._config.autocommit:
                # In this order: a thread may mark at any time.
                self.ledger.tell_of_next_mark(partial(self._marked, trio.lowlevel.current_trio_token()))
                if self.ledger.dirty():
                    self._wake_after_interval()
            await self._wanted.wait()
        self._wanted = trio.Event()
        if self._waiting.cancelled_caught:
            self._round.takes_all = True

    def _marked(self, token: trio.lowlevel.TrioToken) -> None:
        if trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is token:
            self._wake_after_interval()
        else:  # handlers may mark in a worker thread of theirs, and in a `trio.run` there
            token.run_sync_soon(self._wake_after_interval)

    def _wake_after_interval(self) -> None:
        """Intervals are counted from the last round on, those included in which nobody woke up."""
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
        if (failure := this.unheard()) is not None:
            self._observer(CommitFailed(self.group, "; ".join([str(failure), *getattr(failure, "__notes__", ())])))

    def _too_late(self) -> CommitError:
        return CommitError(
            ErrorCode.ILLEGAL_GENERATION,
            f"commit of group {self.group!r}",
            "the membership or the session is over; commit before consume_claim and cleanup return",
        )

    async def commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Commit every mark made so far, or those of `partitions`, and wait until the coordinator has taken it.

        Raises CommitError where the membership or the session is over, TopicAuthorizationError or KafkaError where
        the coordinator refused one of these; the others are committed all the same. During a cooperative rebalance it
        may wait for the new generation.
        """
        if self._is_over:
            raise self._too_late()
        self._wanted.set()
        await self._round.wait(None if partitions is None else frozenset(partitions))

    def position_moved(self, move: Move) -> None:
        """A position was not in its log: marks go on from where it was moved to, and where that moves the mark, whoever
        begins next does not resolve it anew."""
        moved = self.ledger.position_moved(
            move.partition, move.before, move.after, is_first=move.is_first, reach=move.reach
        )
        if moved and self._config.autocommit:
            self.commit_nowait()

    def commit_nowait(self) -> None:
        """Ask for a commit of every mark that nobody waits for; if it fails, observers are told."""
        self._round.takes_all = True
        self._wanted.set()

    async def _commit_dirty(self, this: Round) -> None:
        """Commit the round's marks, and where it has to be tried again the newest ones, but for what is refused."""
        retries, began = self._retries("commit"), trio.current_time()
        while left := {
            tp: offset for tp, offset in self.ledger.dirty().items() if tp not in this.refused and this.takes(tp)
        }:
            self._under_way = (frozenset(left), began)
            for partition in left:
                self._not_taken.setdefault(partition, began)
            self._refuse_unsendable(left, this)
            if not left:
                break
            codes, cause = await self._send_once(left)
            taken = {tp: left[tp] for tp, code in codes.items() if code == 0}
            for partition in taken:
                self._not_taken.pop(partition, None)
            if taken:
                self.ledger.acknowledge(taken)
                self._observer(Committed(self.group, {tp: offset.offset for tp, offset in taken.items()}))
                self._on_commit(taken)
            for partition, code in codes.items():
                if this.is_final(partition, code):
                    this.refused[partition] = kafka_error(code, f"commit of {partition} by group {self.group!r}")
            if not left.keys() - taken.keys() - this.refused.keys():
                break  # what has been marked meanwhile is the next round's
            await retries.wait(cause)

    def _refuse_unsendable(self, offsets: dict[TopicPartition, CommittedOffset], this: Round) -> None:
        """Take out what no request can carry. In a request with the others it would fail all of them, for ever."""
        for partition, offset in tuple(offsets.items()):
            if (fault := metadata_fault(offset.metadata)) is not None:
                del offsets[partition]
                what = f"commit of {partition} at offset {offset.offset} by group {self.group!r}"
                this.refused[partition] = CommitError(fault.code, what, fault.advice)

    async def _send_once(
        self, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> tuple[dict[TopicPartition, int], str]:
        """Send one commit: the code of each partition that was answered, and why others must be sent again."""
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
                    break  # it crossed the group's next generation, under which it is sent again
                self._coordination.post(CommitRefused(generation.id, code))
                raise self._refused(code, generation)
            if reaction is Reaction.FIND_COORDINATOR:
                self._coordination.post(CoordinatorLost(node_id, cause))
        return codes, cause

    def _refused(self, code: int, generation: Generation) -> KafkaError:
        if generation.id == NO_GENERATION and code == ErrorCode.UNKNOWN_MEMBER_ID:
            return CommitError(code, f"commit for group {self.group!r}, as no member of it", _IN_USE)
        if generation.id == NO_GENERATION:
            return kafka_error(code, f"commit for group {self.group!r}", CommitError)
        # Whatever the code: what `consume` raises, where it is fatal, is the membership's.
        return CommitError(
            code,
            f"commit of group {self.group!r}, generation {generation.id}",
            ADVICE.get(ErrorCode.of(code), ""),
        )

    def _retries(self, what: str) -> Retries:
        return Retries(f"{what} of group {self.group}", self._backoff, self._observer, kind=what.replace(" ", "_"))
