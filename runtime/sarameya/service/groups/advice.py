"""Advice below a group's report: partitions per member, and problems. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from sarameya.model import topic_partitions
from sarameya.protocol.cluster.described_groups import CLASSIC, CONSUMER, EMPTY, STABLE
from sarameya.protocol.rebalance import PROTOCOL_TYPE
from sarameya.service.groups.report import GroupReport, PartitionReport
from sarameya.service.output.text import counted, listed


def advice(report: GroupReport) -> list[str]:
    """Return a line for each remark, the first about partitions and members."""
    return [*_members(report), *_partitions(report)]


def partitions_and_members(partitions: int, members: int) -> str:
    """Return a line with both numbers, and the number of partitions that each member reads.

    The load is even if the number of partitions is a multiple of the number of members. If it is not, the line has the
    next smaller and the next larger number of members with an even load. Members beyond the number of partitions are
    idle.
    """
    counts = _counts(partitions, members)
    if members > partitions:
        idle = members - partitions
        return f"{counts}: {idle} idle; only more partitions would give {'it' if idle == 1 else 'them'} work"
    if partitions % members == 0:
        return f"{counts}: {_each(partitions // members)} each"
    divisors = [n for n in range(1, partitions + 1) if partitions % n == 0]
    fewer, more = max(n for n in divisors if n < members), min(n for n in divisors if n > members)
    most = -(-partitions // members)
    return f"{counts}: some read {most}, others {most - 1}; {fewer} or {more} members would read the same number each"


def _members(report: GroupReport) -> Iterator[str]:
    group = report.group
    if group.type not in (CLASSIC, CONSUMER):
        yield f"a group of the type {group.type!r}: its members and offsets have other formats, and are not shown"
    elif group.state == EMPTY:
        waiting = f", {counted(report.lag, 'message')} wait{'s' * (report.lag == 1)}" if report.lag else ""
        yield f"no members: nothing is read{waiting}"
    elif group.protocol_type != PROTOCOL_TYPE:
        yield f"the group's protocol is {group.protocol_type!r}: its members' assignments are not decoded here"
    elif group.state != STABLE:
        yield f"the group is rebalancing ({group.state}): look again when it is {STABLE}"
    elif all(member.assignment is not None for member in group.members):
        yield from _distribution(report)


def _distribution(report: GroupReport) -> Iterator[str]:
    """Yield a line about the distribution of partitions over members."""
    group, topics = report.group, report.subscribed_topics
    shares = [len(topic_partitions(member.assignment or {})) for member in group.members]
    read = {row.partition for row in report.partitions if row.member or row.partition.topic in topics}
    if max(shares) - min(shares) <= 1:
        yield partitions_and_members(len(read), len(shares))
        return
    idle = f", {shares.count(0)} idle" if 0 in shares else ""
    line = f"{_counts(len(read), len(shares))}: assigned unevenly, {min(shares)} to {max(shares)} each{idle}"
    if group.assignor == "range":
        line += "; range assigns each topic by itself, other assignors assign all of them together"
    yield line


def _partitions(report: GroupReport) -> Iterator[str]:
    rows, topics = report.partitions, report.subscribed_topics
    if all(member.assignment is not None for member in report.group.members):
        unread = [row for row in rows if row.member is None and row.partition.topic in topics]
        if unread:
            yield f"{_names(unread)}: subscribed to, but assigned to nobody until the next rebalance"
    twice = {tp for tp, readers in Counter(row.partition for row in rows).items() if readers > 1}
    if twice:
        yield f"{_names(row for row in rows if row.partition in twice)}: assigned to more than one member"
    for row in {row.partition: row for row in rows if row.is_outside_log}.values():
        assert row.committed is not None
        yield (
            f"{row.partition}: the commit {row.committed.offset} is outside the log [{row.log_start}, {row.log_end}]; "
            "reset it, or set offset_out_of_range for its reader"
        )


def _names(rows: Iterable[PartitionReport]) -> str:
    return listed(list(dict.fromkeys(str(row.partition) for row in rows)))


def _counts(partitions: int, members: int) -> str:
    return f"{counted(partitions, 'partition')}, {counted(members, 'member')}"


def _each(number: int) -> str:
    return "one" if number == 1 else str(number)
