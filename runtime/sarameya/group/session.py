"""What a handler holds while it is a member: who it is, what it claims, and where it marks its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from sarameya.group.marks import Marks
from sarameya.group.offset_manager import OffsetManager
from sarameya.group.pauses import Pauses, Pausing
from sarameya.model import Assignment, Generation, GroupMetadata, LogRange, TopicPartition
from sarameya.observe import Event, Observer

if TYPE_CHECKING:
    from sarameya.group.session_machine.messages import SessionOutcome
    from sarameya.group.source import LogFacts


class Session(Marks, Pausing):
    """One session of one member (sarama's ConsumerGroupSession): from its assignment to the next rebalance or, under a
    cooperative assignor, for as long as the membership lasts."""

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
        tell: Observer,
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
        self._tell = tell

    @property
    def group(self) -> str:
        """The group's id."""
        return self._group

    @property
    def member_id(self) -> str:
        """The id that the coordinator has given this member."""
        return self._generation.member_id

    @property
    def generation(self) -> int:
        """The generation's number, which fences commits. Under a cooperative assignor it moves on in a session."""
        return self._generation.id

    @property
    def group_metadata(self) -> GroupMetadata:
        """Who we are, for a transactional producer's `send_offsets_to_transaction` (KIP-447): ask anew each time."""
        return GroupMetadata(self._group, self._generation.id, self._generation.member_id, self._group_instance_id)

    @property
    def claims(self) -> Mapping[str, tuple[int, ...]]:
        """topic -> the partitions this member has, ascending."""
        return self._claims

    @property
    def is_lost(self) -> bool:
        """Whether the membership is gone: others own the claims, and nothing can be committed any more."""
        return self._outcome.lost

    async def commit(self) -> None:
        """Commit all marks now. Raises CommitError, TopicAuthorizationError; see `Config.autocommit`."""
        await self._offsets.commit()

    # -- the logs ------------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """The id of the cluster (KIP-78); empty where its brokers have none (before 0.10.1)."""
        return self._logs.cluster_id

    def topic_id(self, topic: str) -> str:
        """The id of the topic that has this name, as 32 hex digits; empty where brokers have none (before KIP-516), or
        cannot tell as the topic is just being deleted.

        It stays the same for as long as partitions of the topic are claimed here: one that is made again under its name
        meanwhile is not read for it (TopicRecreatedError). Raises ValueError for a topic of which none is.
        """
        if topic not in self._claims:
            raise ValueError(f"{topic} is not claimed in this session (claims: {dict(self._claims)})")
        found = self._logs.topic_id(topic)
        return "" if found is None else found.hex

    async def log_ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogRange]:
        """What these logs have, asked of their leaders now: from the first offset that is still there to the next one
        to be written, whatever the isolation level.

        From `setup` on, also before claims begin. Waits for partitions without a leader; bound it with a cancel scope.
        Raises ValueError for partitions that are not claimed in this session, TopicAuthorizationError,
        RetriesExhaustedError where the options bound retries.
        """
        return await self._logs.ranges(self._claimed(partitions))

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Where leader epochs end in the logs of who leads now (KIP-320): the offset behind the last record that was
        written under an epoch or, where the log has none of that, under one before it.

        Who has read, or landed, records up to an offset beyond the end of their epoch has some that the log lost: it
        was cut in an election. None where the end cannot be told: of epoch -1 (records of old formats have none), by a
        broker before 2.3, or whose log knows nothing of the epoch, nor of one before it. Waits and raises as
        `log_ranges`.
        """
        self._claimed(epochs)
        return await self._logs.epoch_ends(epochs)

    def _claimed(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        wanted = [TopicPartition(*partition) for partition in partitions]
        for partition in wanted:
            if partition.partition not in self._claims.get(partition.topic, ()):
                raise self._not_claimed(partition)
        return wanted

    def tell(self, event: Event) -> None:
        """Tell the group's observers of something that the handler has done, `Landed` or an event of its own."""
        self._tell(event)

    def end(self, reason: str) -> None:
        """Ask for the end of this session: claims finish, marks are committed, the group is joined anew."""
        self._end(reason)

    def _moved(self, generation: Generation, claims: Assignment) -> None:
        """The group has moved on: a new generation, other claims."""
        self._generation, self._claims = generation, claims

    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        return ValueError(f"{partition} is not claimed in this session (claims: {dict(self._claims)})")
