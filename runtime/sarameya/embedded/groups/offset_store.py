"""The commits of groups: stores, deletes and expires them. The rules are in `offset_rules`.

Every change is written to the journal before it takes effect; deletions are tombstones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sarameya.embedded.groups import offset_rules
from sarameya.embedded.groups.model.classic_group import ClassicGroup
from sarameya.embedded.groups.model.messages import CommitRequest, OffsetCommitResult, OffsetDeleteResult
from sarameya.embedded.groups.model.stored import StoredOffset
from sarameya.embedded.groups.rebalancer import Rebalancer
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition


class OffsetStore:
    """Stores the commits of all groups of one coordinator."""

    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer

    def commit(self, group: ClassicGroup, request: CommitRequest, now: float) -> OffsetCommitResult:
        """Store a commit that passed `check_commit`, and renew the member's session.

        If metadata is too long, only its own partition is refused.
        """
        limit = self._rebalancer.config.offset_metadata_max_size
        time_of_day = self._rebalancer.wall_clock()
        expires_at = None if request.retention is None else time_of_day + request.retention
        accepted = {
            tp: StoredOffset(offset, time_of_day, expires_at)
            for tp, offset in request.offsets.items()
            if len(offset.metadata) <= limit
        }
        self._store(group, accepted)
        member = group.members.get(request.member_id)
        if member is not None:
            self._rebalancer.sessions.renew(group, member, now)
        too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
        return OffsetCommitResult({tp: ErrorCode.NONE if tp in accepted else too_large for tp in request.offsets})

    def delete(self, group: ClassicGroup, partitions: Iterable[TopicPartition]) -> OffsetDeleteResult:
        """Delete single commits. A topic that a member subscribes to is refused with GROUP_SUBSCRIBED_TO_TOPIC."""
        error = offset_rules.check_delete(group)
        if error is not ErrorCode.NONE:
            return OffsetDeleteResult(error)
        errors = {
            tp: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.subscribes_to(tp.topic) else ErrorCode.NONE
            for tp in partitions
        }
        self.forget(group, [tp for tp, refusal in errors.items() if refusal is ErrorCode.NONE])
        return OffsetDeleteResult(error, errors)

    def expire(self, group: ClassicGroup) -> None:
        """Delete the group's expired commits."""
        self.forget(
            group, offset_rules.expired(group, self._rebalancer.wall_clock(), self._rebalancer.config.offsets_retention)
        )

    def forget(self, group: ClassicGroup, partitions: Collection[TopicPartition]) -> None:
        """Delete the commits of these partitions, if there are any."""
        self._store(group, dict.fromkeys(tp for tp in partitions if tp in group.offsets))

    def _store(self, group: ClassicGroup, changes: Mapping[TopicPartition, StoredOffset | None]) -> None:
        if changes:
            self._rebalancer.journal.store_offsets(group.group_id, changes)
        for tp, offset in changes.items():
            if offset is None:
                del group.offsets[tp]
            else:
                group.offsets[tp] = offset
