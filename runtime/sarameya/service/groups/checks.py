"""Checks before a change to a group: the state of the group or its topics may forbid it."""

from __future__ import annotations

from collections.abc import Iterable

from sarameya.errors import SarameyaError
from sarameya.protocol.cluster.described_groups import CLASSIC, CONSUMER, DescribedGroup, DescribedMember
from sarameya.service.output.text import counted, listed

_STATIC = " (a static member stays in the group until its session times out)"


class GroupChangeError(SarameyaError):
    """The group cannot be changed in its present state. The message has the remedy."""


def check_kind(group: DescribedGroup) -> None:
    """Raise GroupChangeError for a group that keeps its offsets in another way than a consumer group."""
    if group.type not in (CLASSIC, CONSUMER):
        raise GroupChangeError(f"group {group.group!r} is of the type {group.type!r}, which cannot be changed here")


def check_inactive(group: DescribedGroup) -> None:
    """Raise GroupChangeError for a group with members, and name them. A group that does not exist passes."""
    check_kind(group)
    if group.is_active:
        raise GroupChangeError(
            f"group {group.group!r} is active ({group.state}): {_members(group.members)}; stop its members first"
            + _STATIC * any(member.group_instance_id for member in group.members)
        )


def _members(members: Iterable[DescribedMember]) -> str:
    """Return the members as text: `2 members: sarameya-1 (client a at /10.0.0.1), ...`."""
    names = [f"{member.member_id} (client {member.client_id} at {member.host})" for member in members]
    return f"{counted(len(names), 'member')}: {listed(names)}"
