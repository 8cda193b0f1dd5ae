"""What a handler holds while it is a member: who it is, what it claims, and where it marks its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sarameya.group.marks import Marks
from sarameya.group.offset_manager import OffsetManager
from sarameya.group.pauses import Pauses, Pausing
from sarameya.model import Assignment, Generation, GroupMetadata, TopicPartition


class Session(Marks, Pausing):
    """One session of one member (sarama's ConsumerGroupSession): from its assignment to the next rebalance or, under a
    cooperative assignor, for as long as the membership lasts."""

    def __init__(
        self,
        group: str,
        generation: Generation,
        offsets: OffsetManager,
        pauses: Pauses,
        *,
        end: Callable[[str], None],
        is_lost: Callable[[], bool],
        group_instance_id: str | None = None,
    ) -> None:
        super().__init__(offsets.ledger)
        self._group = group
        self._group_instance_id = group_instance_id
        self._generation = generation
        self._claims: Assignment = {}
        self._offsets = offsets
        self._pauses = pauses
        self._end = end
        self._is_lost = is_lost

    @property
    def group(self) -> str:
        return self._group

    @property
    def member_id(self) -> str:
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
        return self._is_lost()

    async def commit(self) -> None:
        """Commit all marks now. Raises CommitError, TopicAuthorizationError; see `Config.autocommit`."""
        await self._offsets.commit()

    def end(self, reason: str) -> None:
        """Ask for the end of this session: claims finish, marks are committed, the group is joined anew."""
        self._end(reason)

    def _moved(self, generation: Generation, claims: Assignment) -> None:
        """The group has moved on: a new generation, other claims."""
        self._generation, self._claims = generation, claims

    def _not_claimed(self, partition: TopicPartition) -> ValueError:
        return ValueError(f"{partition} is not claimed in this session (claims: {dict(self._claims)})")
