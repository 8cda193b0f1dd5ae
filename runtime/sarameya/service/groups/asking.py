"""Puts the questions of `sarameya groups` to a cluster, in the right order, and carries out what is planned. Trio."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import trio

from sarameya.error_codes import ErrorCode
from sarameya.errors import KafkaError, SarameyaError
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.net.group_admin import GroupAdmin
from sarameya.net.log_offsets import LOG_END, LOG_START, LogOffsets
from sarameya.protocol.cluster.described_groups import BROKER_LED, CLASSIC, DEAD, DescribedGroup
from sarameya.protocol.cluster.offsets_partition import OFFSETS_TOPIC
from sarameya.service.groups.refusal import GroupChangeError, check_inactive, check_kind
from sarameya.service.groups.report import GroupReport, partitions_of, report
from sarameya.service.groups.reset import Kind, Logs, Move, Target, plan
from sarameya.service.groups.scope import TopicChoice, resolve

_AT_A_TIME = 16
"""So many groups are asked for at the same time."""

_HAS_MEMBERS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""How a coordinator refuses a change from outside once the group has members."""


@attrs.frozen(slots=True)
class Known:
    """A group and all that it has committed."""

    group: DescribedGroup
    committed: dict[TopicPartition, CommittedOffset]


@attrs.frozen(slots=True)
class Reports:
    """The groups asked for, in order, and what kept others from being described."""

    reports: tuple[GroupReport, ...]
    failures: tuple[tuple[str, SarameyaError], ...] = ()


async def describe(admin: GroupAdmin, groups: Sequence[str]) -> Reports:
    """A report of each group. One that does not exist, or whose coordinator does not answer, is a failure."""
    known: dict[str, Known] = {}
    failures: dict[str, SarameyaError] = {}
    limit = trio.CapacityLimiter(_AT_A_TIME)

    async def ask(name: str) -> None:
        async with limit:
            try:
                known[name] = await existing(admin, name)
            except SarameyaError as error:
                failures[name] = error

    async with trio.open_nursery() as nursery:
        for name in dict.fromkeys(groups):
            nursery.start_soon(ask, name)
    topics = {OFFSETS_TOPIC, *(topic for found in known.values() for topic in _topics(found))}
    counts = (await admin.metadata(topics)).partition_counts(topics)
    starts, ends = await _bounds(
        admin, {tp for found in known.values() for tp in partitions_of(found.group, found.committed, counts)}
    )
    return Reports(
        tuple(
            report(known[name].group, known[name].committed, counts, starts, ends, counts.get(OFFSETS_TOPIC))
            for name in dict.fromkeys(groups)
            if name in known
        ),
        tuple((name, failures[name]) for name in dict.fromkeys(groups) if name in failures),
    )


async def existing(admin: GroupAdmin, name: str) -> Known:
    """The group. Raises KafkaError where there is none of that name."""
    group = await admin.describe(name)
    if group.state == DEAD:
        advice = "there is no such group; `sarameya groups list` shows which there are"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {name!r}", advice)
    return Known(group, await admin.committed(name) if group.type in (CLASSIC, BROKER_LED) else {})


@attrs.frozen(slots=True)
class ResetPlan:
    """What a reset would do. Where the group's state is DEAD, it would come into being."""

    group: DescribedGroup
    moves: list[Move]


async def plan_reset(admin: GroupAdmin, name: str, choices: Sequence[TopicChoice], target: Target) -> ResetPlan:
    """What the reset would do, with every partition that is committed for where `choices` is empty.

    Raises GroupChangeError for an active group, and where a partition has no offset to go to.
    """
    group = await admin.describe(name)
    check_inactive(group)
    committed = {} if group.state == DEAD else await admin.committed(name)
    partitions, gone = await _chosen(admin, name, choices, committed)
    there = [tp for tp in partitions if tp not in gone]
    starts, ends = await _bounds(admin, there)
    logs = Logs(starts, ends)
    if target.kind is Kind.TIME:
        logs = attrs.evolve(logs, at_time=await admin.log_offsets(there, target.value))
    return ResetPlan(group, plan(target, partitions, committed, logs, gone))


async def carry_out_reset(admin: GroupAdmin, name: str, moves: Iterable[Move]) -> list[Move]:
    """Commit what was planned; each move with what the coordinator has refused of it.

    Raises GroupChangeError where the group has got members meanwhile: then the coordinator refuses all of it.
    """
    offsets = {move.partition: move.after for move in moves if move.after is not None}
    codes = await admin.commit(name, offsets) if offsets else {}
    return _outcome(name, moves, codes)


async def plan_offsets_deletion(admin: GroupAdmin, name: str, choices: Sequence[TopicChoice]) -> list[Move]:
    """The commits that would be taken away: all of them where `choices` is empty."""
    known = await existing(admin, name)
    check_kind(known.group)
    if choices:
        chosen = [tp for tp in known.committed if any(choice.covers(tp) for choice in choices)]
    else:
        chosen = list(known.committed)
    if not chosen:
        raise GroupChangeError(f"group {name!r} has committed nothing of that")
    return [Move(tp, known.committed[tp].offset, None) for tp in sorted(chosen)]


async def carry_out_offsets_deletion(admin: GroupAdmin, name: str, moves: Sequence[Move]) -> list[Move]:
    """Take the commits away; each with what the coordinator has refused of it."""
    return _outcome(name, moves, await admin.delete_offsets(name, [move.partition for move in moves]))


async def delete_group(admin: GroupAdmin, name: str) -> None:
    """Remove the group. Raises GroupChangeError where it has got members meanwhile."""
    try:
        await admin.delete_group(name)
    except KafkaError as error:
        _raise_if_active(name, error.code)
        raise


def _outcome(name: str, moves: Iterable[Move], codes: dict[TopicPartition, int]) -> list[Move]:
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
            "meanwhile; stop the members, and do it again"
        )


async def _chosen(
    admin: GroupAdmin, name: str, choices: Sequence[TopicChoice], committed: dict[TopicPartition, CommittedOffset]
) -> tuple[list[TopicPartition], set[TopicPartition]]:
    """The partitions that are meant, and those among them that are gone though committed for."""
    if choices:
        return resolve(choices, await admin.metadata({choice.topic for choice in choices})), set()
    if not committed:
        raise GroupChangeError(f"group {name!r} has committed nothing; say by --topic what to commit")
    topics = {tp.topic for tp in committed}
    cluster = await admin.metadata(topics)
    unknown = cluster.missing(topics)
    gone = {
        tp
        for tp in committed
        if cluster.partition(tp) is None and unknown.get(tp.topic, 0) in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    }
    return sorted(committed), gone


def _topics(known: Known) -> set[str]:
    """Every topic that the group has to do with."""
    members = known.group.members
    return {tp.topic for tp in known.committed} | {t for m in members for t in (*m.topics, *(m.assignment or ()))}


async def _bounds(admin: GroupAdmin, partitions: Iterable[TopicPartition]) -> tuple[LogOffsets, LogOffsets]:
    """Where the logs start and end. Two rounds: a request may name a partition once."""
    wanted = list(partitions)
    return await admin.log_offsets(wanted, LOG_START), await admin.log_offsets(wanted, LOG_END)
