"""The interface that a user implements, `ConsumerGroupHandler`, and its variant for streams. The session calls it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, final

from sarameya.errors import ConfigError
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.protocol.subscription import Wanted

if TYPE_CHECKING:
    from sarameya.group.claim import Claim
    from sarameya.group.services import HandlerServices
    from sarameya.group.session import Session
    from sarameya.group.stream import Stream


class ConsumerGroupHandler(ABC):
    """Callbacks of a session, for the user to implement (sarama's ConsumerGroupHandler).

    Order of calls: `setup` once; `partitions_assigned` with the assigned partitions; `start_offset` once for each
    partition; `consume_claim` once for each claim, each in its own task; `partitions_revoked` or `partitions_lost` with
    the revoked partitions; `cleanup` once, even after a failure. An exception from any method ends the session in
    order. `ConsumerGroup.consume` then raises it with partition and offset, even if `consume` is cancelled.

    Under an eager assignor a session has one assignment. Under a cooperative assignor (KIP-429) it spans several
    generations: partitions are added and revoked, and the others are read without interruption.
    """

    async def setup(self, session: Session) -> None:
        """Called once for each session, before any claim starts. Marks and `session.claims` may be used.

        If a rebalance begins meanwhile, `setup` and `partitions_assigned` may take as long as a claim may take to stop
        (`Config.claim_grace`). After that the call is cancelled, observers get `CallCancelled`, and the session ends.
        """

    async def partitions_assigned(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Called with newly assigned partitions, before their claims start. Not called for an empty list."""

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Called with revoked partitions, after their claims have stopped and before the last commit of their marks."""

    async def partitions_lost(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        """Called with lost partitions: other members may read them already, and marks can no longer be committed."""

    @abstractmethod
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Read one partition until its claim stops: `async for message in claim`.

        The iterator ends when the claim stops. Code after the loop may run for the rest of `Config.claim_grace` and is
        then cancelled. Returning earlier ends the session for all claims.
        """

    async def cleanup(self, session: Session) -> None:
        """Called once for each session, after all claims have stopped and before the last commit."""

    async def start_offset(
        self, partition: TopicPartition, committed: CommittedOffset | None
    ) -> int | CommittedOffset | None:
        """Return a partition's start offset, or None for the committed offset (else `Config.offset_initial`).

        For a handler that stores its own offsets, for example a sink whose table knows which records it has. Called for
        each partition after `setup` and before its claim starts.

        Args:
            partition: The partition to start.
            committed: Its committed offset; None if the group has committed none.

        Returns:
            An offset, or a CommittedOffset with the leader epoch of the record before it. With a leader epoch, the
            session checks whether the leader's log was truncated below that offset (KIP-320); if so,
            `Config.offset_out_of_range` decides. Metadata in the CommittedOffset means that this handler's marks have
            metadata: see `Session.mark_offset`.
            The returned offset and metadata are not committed. Marks move forward from the group's committed offset. To
            move the committed offset back, call `Session.reset_offset`.
        """
        return None

    def _running(self, services: HandlerServices) -> AbstractAsyncContextManager[None]:
        """Return a context in which the group runs: from before its first join until it has left."""
        return nullcontext()

    def _subscribed(self, wanted: Wanted, group: str) -> Wanted:
        """Return the topics to subscribe to, for a subscription of the user."""
        return wanted

    def _check(self) -> None:
        """Check the handler's options. Called before the handler is used.

        Raises:
            ConfigError: An option is invalid.
        """


class StreamHandler(ConsumerGroupHandler):
    """A handler whose tasks read several claims each, merged into one stream.

    Each member runs `streams` tasks (at least 1). A task starts after the first assignment and runs until the session
    ends, even while its stream has no partitions. Partitions are distributed over the streams as soon as their start
    offsets are known: first those with a committed offset, in ranges, in order. Each later one goes to the stream with
    the fewest partitions. Everything else is as in ConsumerGroupHandler.
    """

    streams: int = 1

    @abstractmethod
    async def consume_stream(self, session: Session, stream: Stream) -> None:
        """Read the stream until it ends: `async for message in stream`, or `async for batch in stream.batches()`.

        Each request for the next message confirms that the messages before are processed. Before a partition is
        revoked, the session waits for the next request, at most for `Config.claim_grace`; then the task is cancelled,
        and the session ends. A handler that collects several messages or batches has to process those of a revoked
        partition in `partitions_revoked`. The iterator ends with the session. Returning earlier ends the session.
        """

    @final
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        """Raise NotImplementedError: `consume_stream` reads the claims."""
        raise NotImplementedError("a StreamHandler reads its claims in consume_stream")

    def _check(self) -> None:
        """Check the number of streams.

        Raises:
            ConfigError: `streams` is not an int of at least 1.
        """
        if isinstance(self.streams, bool) or not isinstance(self.streams, int) or self.streams < 1:
            raise ConfigError("streams", self.streams, "must be a whole number of at least 1")
