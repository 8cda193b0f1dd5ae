"""Notices of a member to the group's loop (`sessions.py`) and to its session. Plain data."""

from __future__ import annotations

import msgspec

from sarameya.model import Assignment, Generation
from sarameya.protocol.membership.messages import Fail, Left, MembershipLost, PrepareRebalance


class NewAssignment(msgspec.Struct, frozen=True):
    """The partitions assigned to this member, until the next generation or until the membership is lost.

    Attributes:
        generation: The generation of the assignment.
        assignment: The assigned partitions.
        owned_in_join: The partitions that the join named as owned. Those of them that `assignment` lacks are not
            assigned to other members before this member joins again without them (KIP-429).
    """

    generation: Generation
    assignment: Assignment
    owned_in_join: Assignment = {}


class CloseWanted(msgspec.Struct, frozen=True):
    """A request to close the group. `reason` is sent to the broker (KIP-800)."""

    reason: str


class SubscriptionChanged(msgspec.Struct, frozen=True):
    """The user has changed or dropped the subscription. `Member.wanted` has the new subscription."""


Notice = NewAssignment | PrepareRebalance | MembershipLost | Left | Fail | CloseWanted | SubscriptionChanged
"""The messages of a member to the group's loop and to its session."""
