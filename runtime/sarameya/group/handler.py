"""What a user writes: a `ConsumerGroupHandler`. Owns no state; the loop in `consumer_group.py` calls it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from sarameya.errors import ConfigError
from sarameya.model import CommittedOffset, TopicPartition

if TYPE_CHECKING:
    from sarameya.group.claim import Claim
    from sarameya.group.session import Session
    from sarameya.group.stream import Stream


class ConsumerGroupHandler(ABC):
    """The life of a session, for a user to fill in (sarama's ConsumerGroupHandler).

    Order: `setup` once, `partitions_assigned` for what is assigned, `start_offset` once a partition, `consume_claim`
    once a claim (each in a task of its own), `partitions_revoked` or `partitions_lost` for what is given up,
    `cleanup` once, also when one of the others has failed. Everything a method raises ends the session in order and
    is then raised by `ConsumerGroup.consume`, with its coordinates, also where `consume` is cancelled.

    Under an eager assignor a session has one assignment. Under a cooperative one (KIP-429) it spans generations:
    partitions come and go, and what is kept is read on without a pause.
    """

    async def setup(self, session: Session) -> None:
        """Called once a session, before any claim. Marks and `session.claims` may be used.

        Where a rebalance begins meanwhile, this and `partitions_assigned` have the grace of claims
        (`Config.claim_grace`); then they are cancelled, observers are told (`CallCancelled`), and the session ends.
        """

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """`partitions` are this member's from now on; their claims begin next. Not called for none."""

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """`partitions` are given up: their claims have ended, their last commit follows. Marks still count."""

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """`partitions` are lost: others may read them already, and nothing of them can be committed any more."""

    @abstractmethod
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Read one partition until the claim ends: `async for message in claim`.

        The iterator ends when the session does; what happens after it must fit the grace
        (`Config.claim_grace`), or it is cancelled. Returning earlier ends the session for all claims.
        """

    async def cleanup(self, session: Session) -> None:
        """Called once a session, after every claim has finished and before the last commit."""

    async def start_offset(
        self, partition: TopicPartition, committed: CommittedOffset | None
    ) -> int | CommittedOffset | None:
        """The offset to begin at, or None for the usual one: committed, else `Config.offset_initial`.

        For a sink whose own table knows better than Kafka's commit what has landed. Called for each
        partition between `setup` and the claims. `committed` is None where the group has committed nothing.

        A CommittedOffset says, besides, the leader epoch of what stands before it: then the leader is asked, before
        anything is read, whether its log was cut below that (KIP-320), and if so `Config.offset_out_of_range` decides.
        Nothing is committed by this: neither the offset nor its metadata. Marks go on from what the group has
        committed; who begins before that, and wants it to move back, says so by `Session.reset_offset`. Metadata tells
        that this handler's marks carry some: see `Session.mark_offset`.
        """
        return None


class StreamHandler(ConsumerGroupHandler):
    """A handler whose tasks read several claims each, merged into one feed: a stream.

    `streams` (a whole number of at least 1) is how many such tasks a member has; each begins after the first
    assignment and lasts until the session ends, with whatever partitions it has at the time, also none. A new
    session's partitions are dealt to the streams range-wise, in order; what begins later (added by a cooperative
    assignor, or without a leader to say where) goes to whichever stream has the fewest. All else is as in
    ConsumerGroupHandler.
    """

    streams: int = 1

    @abstractmethod
    async def consume_stream(self, session: Session, stream: Stream) -> None:
        """Read the stream until it ends: `async for message in stream`, or `async for batch in stream.batches()`.

        Asking for more tells that what came before has been dealt with: a partition that is given up to another
        member is waited for until then (at most `Config.claim_grace`, or the task is cancelled and the session ends).
        A handler that collects more than one message or batch deals with what it has of a partition in
        `partitions_revoked`. The iterator ends when the session does; returning earlier ends the session.
        """

    @final
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Never called: claims are read through streams."""
        raise NotImplementedError("a StreamHandler reads through consume_stream")

    def _check(self) -> None:
        """Raises ConfigError for what cannot be run as a stream."""
        if isinstance(self.streams, bool) or not isinstance(self.streams, int) or self.streams < 1:
            raise ConfigError("streams", self.streams, "must be a whole number of at least 1")
