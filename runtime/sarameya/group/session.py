"""The handler's view of its membership: the member's identity, its claims, and the marks of processed messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from sarameya.group.delivery.pauses import Pauses, Pausing
from sarameya.group.offsets.marks import Marks
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.model import Assignment, Generation, GroupMetadata, LogRange, TopicPartition
from sarameya.observe import Event, Observer

if TYPE_CHECKING:
    from sarameya.group.session_machine.outcome import SessionOutcome
    from sarameya.group.source import LogFacts


class Session(Marks, Pausing):
    """A session of a group member (sarama's ConsumerGroupSession).

    It lasts from an assignment to the next rebalance or, under a cooperative assignor, as long as the membership.
    """

    def __init__(
        self,
        group: str,
        generation: Generation,
        offsets: OffsetManager,
        pauses: Pauses,
        logs: LogFacts,
        outcome: SessionOutcome,
        *,
        end: Callable[[str], None],
        observer: Observer,
        group_instance_id: str | None = None,
    ) -> None:
        super().__init__(offsets.ledger)
        self._group = group
        self._group_instance_id = group_instance_id
        self._generation = generation
        self._claims: Assignment = {}
        self._offsets = offsets
        self._pauses = pauses
        self._logs = logs
        self._end = end
        self._outcome = outcome
        self._observer = observer

    @property
    def group(self) -> str:
        """Id of the group."""
        return self._group

    @property
    def member_id(self) -> str:
        """Member id, given by the coordinator."""
        return self._generation.member_id

    @property
    def generation(self) -> int:
        """Number of the generation, which fences commits. Under a cooperative assignor it changes within a session."""
        return self._generation.id

    @property
    def group_metadata(self) -> GroupMetadata:
        """The member's identity for a transactional producer's `send_offsets_to_transaction` (KIP-447).

        Read it again for each transaction, since the generation changes.
        """
        return GroupMetadata(self._group, self._generation.id, self._generation.member_id, self._group_instance_id)

    @property
    def claims(self) -> Mapping[str, tuple[int, ...]]:
        """Owned partitions of each topic, in ascending order."""
        return self._claims

    @property
    def is_lost(self) -> bool:
        """True once the membership is lost: other members own the partitions, and no mark can be committed any more."""
        return self._outcome.lost

    async def commit(self) -> None:
        """Commit all marks now. See `Config.autocommit`.

        Raises:
            CommitError: The membership or the session is over.
            TopicAuthorizationError: The group may not commit for a topic.
            KafkaError: The coordinator refused a partition.
        """
        await self._offsets.commit()

    # -- the logs ------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """Id of the cluster (KIP-78); empty if its brokers have none (before 0.10.1)."""
        return self._logs.cluster_id

    def topic_id(self, topic: str) -> str:
        """Return the id of the topic with this name, as 32 hex digits.

        Empty if brokers have no ids (before KIP-516), or if the topic is just being deleted. The id stays the same
        while partitions of the topic are claimed here: if the topic is deleted and created again, its claims fail
        (TopicRecreatedError).

        Raises:
            ValueError: No partition of the topic is claimed.
        """
        if topic not in self._claims:
            raise ValueError(f"{topic} is not claimed in this session (claims: {dict(self._claims)})")
        found = self._logs.topic_id(topic)
        return "" if found is None else found.hex

    async def log_ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogRange]:
        """Return the offset range of each log, from its leader: from the log start to the offset of its next record.

        The isolation level has no influence. May be called from `setup` on, before claims start. Waits for partitions
        without a leader; bound the wait with a cancel scope.

        Raises:
            ValueError: A partition is not claimed in this session.
            TopicAuthorizationError: The client may not describe a topic.
            RetriesExhaustedError: The options allow no further retry.
        """
        return await self._logs.ranges(self._claimed(partitions))

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the end of each leader epoch in the current leader's log (KIP-320).

        The end is the offset after the last record of this epoch or, if the log has no such record, of an earlier
        epoch. A reader that has read records of the epoch from this end on has records that the log lost: the log was
        truncated after an election.

        Waits and raises as `log_ranges` does.

        Args:
            epochs: A leader epoch for each partition.

        Returns:
            The end for each partition; None if it is unknown: the epoch is -1 (records of old formats have no epoch),
            the broker is older than 2.3, or its log has neither the epoch nor an earlier one.
        """
        self._claimed(epochs)
        return await self._logs.epoch_ends(epochs)

    def _claimed(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        wanted = [TopicPartition(*partition) for partition in partitions]
        for partition in wanted:
            if partition.partition not in self._claims.get(partition.topic, ()):
                raise self._not_claimed(partition)
        return wanted

    def notify(self, event: Event) -> None:
        """Pass an event of the handler to the group's observers: `Landed`, or an event class of your own."""
        self._observer(event)

    def end(self, reason: str) -> None:
        """Request the end of this session: claims stop, marks are committed, and the member rejoins."""
        self._end(reason)

    def _update(self, generation: Generation, claims: Assignment) -> None:
        """Set the present generation and its claims."""
        self._generation, self._claims = generation, claims

    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        return ValueError(f"{partition} is not claimed in this session (claims: {dict(self._claims)})")
