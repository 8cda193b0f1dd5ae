"""The start offset of a claim: the rule, and the choices that a user or a handler may make. Pure.

A claim starts at the first of these that says an offset (`choose_start`):

1. the handler's `start_offset` or, without the group protocol, the user's choice
2. the group's committed offset
3. the oldest message, if the partition was added to its topic while the group was running
4. `Config.offset_initial` of the topic
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from sarameya.errors import NoCommittedOffsetError
from sarameya.model import NO_LEADER_EPOCH, CommittedOffset, TopicPartition, is_offset
from sarameya.net.log_offsets import LogOffset
from sarameya.offset_policy import OffsetPolicy, parse_policy

StartOffset: TypeAlias = int | OffsetPolicy | Literal["committed"]
"""A start offset: an offset, a policy, or the group's committed offset."""


@attrs.frozen(slots=True)
class Start:
    """The start offset of a claim.

    Attributes:
        why: `handler`, `committed`, `added` (while running), `given` (by the user without a group protocol), or the
            policy that chose the offset, as text.
        leader_epoch: Epoch of the record before the offset, if known (KIP-320).
        lookup_epoch: Epoch of the leader that returned the offset, if a leader was asked.
    """

    offset: int
    why: str
    leader_epoch: int = NO_LEADER_EPOCH
    lookup_epoch: int = NO_LEADER_EPOCH

    @classmethod
    def at(cls, place: LogOffset, why: str) -> Start:
        """Return the start at an offset that a leader returned."""
        return cls(place.offset, why, place.leader_epoch, place.lookup_epoch)


def choose_start(
    chosen: Start | OffsetPolicy | None,
    commit: CommittedOffset | None,
    initial: OffsetPolicy,
    *,
    is_new: bool = False,
) -> Start | OffsetPolicy:
    """Return the start of a claim, or the policy that its offset has to be looked up by.

    Args:
        chosen: The choice of the handler or the user; None for the group's committed offset.
        commit: The group's committed offset; None if there is none.
        initial: The topic's `Config.offset_initial`.
        is_new: The partition was added while the group was running: no message of it may be skipped.
    """
    if chosen is not None:
        return chosen
    if commit is not None:
        return Start(commit.offset, "committed", commit.leader_epoch)
    return "oldest" if is_new else initial


def parse_start(value: Any) -> StartOffset:
    """Return the start offset that `value` stands for.

    Raises:
        ValueError: `value` is no start offset.
    """
    if value == "committed":
        return "committed"
    if isinstance(value, int):
        if not is_offset(value):
            raise ValueError("must be an offset: an int of at least 0")
        return value
    return parse_policy(value)


def check_policies(policies: Mapping[TopicPartition, OffsetPolicy], group: str) -> None:
    """Check that a policy may choose the start offset of each of these partitions.

    Raises:
        NoCommittedOffsetError: `fail` is the policy of at least one.
    """
    if lacking := tuple(partition for partition, policy in policies.items() if policy == "fail"):
        raise NoCommittedOffsetError(group, lacking)
