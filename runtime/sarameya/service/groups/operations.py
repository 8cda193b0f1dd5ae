"""Requests of `sarameya groups` to a cluster, in the right order, and the execution of plans. Trio."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import trio

from sarameya.error_codes import ErrorCode
from sarameya.errors import KafkaError, SarameyaError
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.net.log_offsets import LOG_END, LOG_START, LogOffsets
from sarameya.protocol.cluster.described_groups import CLASSIC, CONSUMER, DEAD, DescribedGroup
from sarameya.protocol.cluster.offsets_partition import OFFSETS_TOPIC
from sarameya.service.groups.checks import GroupChangeError, check_inactive, check_kind
from sarameya.service.groups.report import GroupReport, partitions_of, report
from sarameya.service.groups.reset import LogBounds, OffsetMove, ResetKind, ResetTarget, plan
from sarameya.service.groups.topic_choice import TopicChoice, resolve

_MAX_CONCURRENT = 16
"""The number of groups that are described at the same time."""

_HAS_MEMBERS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""Errors with which a coordinator refuses a change from outside because the group has members."""


@attrs.frozen(slots=True)
class KnownGroup:
    """A group and all its commits."""

    group: DescribedGroup
    committed: dict[TopicPartition, CommittedOffset]


@attrs.frozen(slots=True)
class GroupReports:
    """Reports of the requested groups, in order, and the errors of the others."""

    reports: tuple[GroupReport, ...]
    failures: tuple[tuple[str, SarameyaError], ...] = ()


async def describe(admin: GroupAdmin, groups: Sequence[str]) -> GroupReports:
    """Return a report of each group.

    A group that does not exist, or whose coordinator does not answer, is a failure.
    """
    known: dict[str, KnownGroup] = {}
    failures: dict[str, SarameyaError] = {}
    limit = trio.CapacityLimiter(_MAX_CONCURRENT)

    async def load(name: str) -> None:
        async with limit:
            try:
                known[name] = await existing(admin, name)
            except SarameyaError as error:
                failures[name] = error

    async with trio.open_nursery() as nursery:
        for name in dict.fromkeys(groups):
            nursery.start_soon(load, name)
    topics = {OFFSETS_TOPIC, *(topic for found in known.values() for topic in _topics(found))}
    counts = (await admin.metadata(topics)).partition_counts(topics)
    starts, ends = await _bounds(
        admin, {tp for found in known.values() for tp in partitions_of(found.group, found.committed, counts)}
    )
    return GroupReports(
        tuple(
            report(known[name].group, known[name].committed, counts, starts, ends, counts.get(OFFSETS_TOPIC))
            for name in dict.fromkeys(groups)
            if name in known
        ),
        tuple((name, failures[name]) for name in dict.fromkeys(groups) if name in failures),
    )


async def existing(admin: GroupAdmin, name: str) -> KnownGroup:
    """Return the group and its commits.

    Raises:
        KafkaError: There is no group of that name.
    """
    group = await admin.describe(name)
    if group.state == DEAD:
        advice = "there is no such group; `sarameya groups list` shows the groups that exist"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {name!r}", advice)
    return KnownGroup(group, await admin.committed(name) if group.type in (CLASSIC, CONSUMER) else {})


@attrs.frozen(slots=True)
class ResetPlan:
    """The plan of a reset. If the group's state is DEAD, the commit creates the group."""

    group: DescribedGroup
    moves: list[OffsetMove]


async def plan_reset(admin: GroupAdmin, name: str, choices: Sequence[TopicChoice], target: ResetTarget) -> ResetPlan:
    """Return the plan of a reset. Without `choices` it covers every partition with a commit.

    Raises:
        GroupChangeError: The group is active, or no new offset can be computed for a partition.
    """
    group = await admin.describe(name)
    check_inactive(group)
    committed = {} if group.state == DEAD else await admin.committed(name)
    partitions, deleted = await _chosen(admin, name, choices, committed)
    existing_partitions = [tp for tp in partitions if tp not in deleted]
    starts, ends = await _bounds(admin, existing_partitions)
    logs = LogBounds(starts, ends)
    if target.kind is ResetKind.TIME:
        logs = attrs.evolve(logs, at_time=await admin.log_offsets(existing_partitions, target.value))
    return ResetPlan(group, plan(target, partitions, committed, logs, deleted))


async def carry_out_reset(admin: GroupAdmin, name: str, moves: Iterable[OffsetMove]) -> list[OffsetMove]:
    """Commit the plan. Return its moves, each with the coordinator's error.

    Raises:
        GroupChangeError: The group has members now. The coordinator refuses the whole commit.
    """
    offsets = {move.partition: move.after for move in moves if move.after is not None}
    codes = await admin.commit(name, offsets) if offsets else {}
    return _outcome(name, moves, codes)


async def plan_offsets_deletion(admin: GroupAdmin, name: str, choices: Sequence[TopicChoice]) -> list[OffsetMove]:
    """Return the commits to remove. Without `choices` these are all commits of the group.

    Raises:
        KafkaError: There is no group of that name.
        GroupChangeError: The group is not a consumer group, or has no commit to remove.
    """
    known = await existing(admin, name)
    check_kind(known.group)
    if choices:
        chosen = [tp for tp in known.committed if any(choice.covers(tp) for choice in choices)]
    else:
        chosen = list(known.committed)
    if not chosen:
        raise GroupChangeError(f"group {name!r} has no commit for the chosen partitions")
    return [OffsetMove(tp, known.committed[tp].offset, None) for tp in sorted(chosen)]


async def carry_out_offsets_deletion(admin: GroupAdmin, name: str, moves: Sequence[OffsetMove]) -> list[OffsetMove]:
    """Remove the commits. Return the moves, each with the coordinator's error.

    Raises:
        GroupChangeError: The group has members now.
    """
    return _outcome(name, moves, await admin.delete_offsets(name, [move.partition for move in moves]))


async def delete_group(admin: GroupAdmin, name: str) -> None:
    """Delete the group.

    Raises:
        GroupChangeError: The group has members now.
    """
    try:
        await admin.delete_group(name)
    except KafkaError as error:
        _raise_if_active(name, error.code)
        raise


def _outcome(name: str, moves: Iterable[OffsetMove], codes: dict[TopicPartition, int]) -> list[OffsetMove]:
    """Return the moves, each with the coordinator's error. Raises GroupChangeError if the group has members."""
    for code in codes.values():
        _raise_if_active(name, code)
    refused = {partition: ErrorCode.describe(code) for partition, code in codes.items() if code}
    return [
        attrs.evolve(move, after=None, error=refused[move.partition]) if move.partition in refused else move
        for move in moves
    ]


def _raise_if_active(name: str, code: int) -> None:
    if code in _HAS_MEMBERS:
        raise GroupChangeError(
            f"group {name!r}: refused by the coordinator with {ErrorCode.describe(code)}, since a member has joined "
            "meanwhile; stop the members, and run the command again"
        )


async def _chosen(
    admin: GroupAdmin, name: str, choices: Sequence[TopicChoice], committed: dict[TopicPartition, CommittedOffset]
) -> tuple[list[TopicPartition], set[TopicPartition]]:
    """Return the chosen partitions, and those among them that have commits but no longer exist."""
    if choices:
        return resolve(choices, await admin.metadata({choice.topic for choice in choices})), set()
    if not committed:
        raise GroupChangeError(f"group {name!r} has no commits; name the partitions to commit by --topic")
    topics = {tp.topic for tp in committed}
    cluster = await admin.metadata(topics)
    unknown = cluster.missing(topics)
    deleted = {
        tp
        for tp in committed
        if cluster.partition(tp) is None and unknown.get(tp.topic, 0) in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    }
    return sorted(committed), deleted


def _topics(known: KnownGroup) -> set[str]:
    """Return every topic that the group reads or has commits for."""
    members = known.group.members
    return {tp.topic for tp in known.committed} | {t for m in members for t in (*m.topics, *(m.assignment or ()))}


async def _bounds(admin: GroupAdmin, partitions: Iterable[TopicPartition]) -> tuple[LogOffsets, LogOffsets]:
    """Return the log starts and ends. Two rounds, since a request may name a partition only once."""
    wanted = list(partitions)
    return await admin.log_offsets(wanted, LOG_START), await admin.log_offsets(wanted, LOG_END)
