"""Reports and plans as text for people: plain columns on any output. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from sarameya.model import Assignment, TopicPartition
from sarameya.protocol.cluster.described_groups import DescribedMember, ListedGroup
from sarameya.protocol.cluster.offsets_partition import OFFSETS_TOPIC
from sarameya.service.groups.advice import advice
from sarameya.service.groups.report import GroupReport, PartitionReport
from sarameya.service.groups.reset import OffsetMove
from sarameya.service.output.text import NOTHING, Cell, counted, printable, table


def assignment_text(assignment: Assignment) -> str:
    """Return an assignment in short form: `orders:0-3,7 payments:1`."""
    return " ".join(f"{topic}:{ranges_text(numbers)}" for topic, numbers in sorted(assignment.items()) if numbers)


def ranges_text(numbers: Iterable[int]) -> str:
    """Return numbers in short form: `0-3,7`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)


def listing_text(groups: Iterable[ListedGroup]) -> str:
    """Return the text of `sarameya groups list`."""
    rows = [
        (
            group.group,
            group.state,
            group.type,
            group.protocol_type,
            group.coordinator.node_id,
            group.coordinator.address,
        )
        for group in groups
    ]
    return table(("GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR", "ADDRESS"), rows)


def report_text(report: GroupReport) -> str:
    """Return the text of `sarameya groups describe`: the group, its partitions, its members, and advice."""
    parts = [_head(report)]
    if report.partitions:
        parts.append(table(_PARTITION_HEADER, map(_partition_row, report.partitions)))
    if report.group.members:
        parts.append(table(_MEMBER_HEADER, map(_member_row, report.group.members)))
    if lines := [*_problems(report.partitions), *advice(report)]:
        parts.append("\n".join(map(printable, lines)))
    return "\n\n".join(parts)


def _head(report: GroupReport) -> str:
    group, coordinator = report.group, report.group.coordinator
    number, count = report.offsets_partition, report.offsets_partitions
    kept_in = "" if number is None else f", leader of {OFFSETS_TOPIC}-{number} of {count}"
    lines = [
        ("state", group.state),
        ("members", len(group.members)),
        ("lag", _lag(report)),
        ("coordinator", f"{coordinator.node_id} at {coordinator.address}{kept_in}"),
        ("protocol", f"{group.protocol_type or NOTHING} ({group.type})"),
        ("assignor", group.assignor),
    ]
    width = max(len(name) for name, _ in lines)
    shown = [f"  {name:{width}}  {NOTHING if value in (None, '') else printable(str(value))}" for name, value in lines]
    return "\n".join([f"GROUP {printable(group.group)}", *shown])


def _lag(report: GroupReport) -> str | None:
    """Return the sum of the lags, and the number of partitions without one.

    Such a partition may have no commit, and its whole log still to read.
    """
    unknown = sum(row.lag is None for row in report.partitions)
    if report.lag is None or not unknown:
        return None if report.lag is None else str(report.lag)
    return f"{report.lag}, without {counted(unknown, 'partition')} whose lag is not known"


_PARTITION_HEADER = ("TOPIC", "PARTITION", "COMMITTED", "LOG-END", "LAG", "MEMBER", "CLIENT", "HOST")


def _partition_row(row: PartitionReport) -> tuple[Cell, ...]:
    member = row.member
    return (
        row.partition.topic,
        row.partition.partition,
        row.committed.offset if row.committed else None,
        row.log_end,
        row.lag,
        *((member.member_id, member.client_id, member.host) if member else (None, None, None)),
    )


_MEMBER_HEADER = ("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS", "ASSIGNMENT")


def _member_row(member: DescribedMember) -> tuple[Cell, ...]:
    known = (member.member_id, member.group_instance_id, member.client_id, member.host)
    if member.assignment is None:
        return (*known, None, f"({member.problem})")
    return (*known, sum(map(len, member.assignment.values())), assignment_text(member.assignment))


def _problems(rows: Iterable[PartitionReport]) -> list[str]:
    """Return a line for each reason why log offsets are missing."""
    by_reason: dict[str, list[TopicPartition]] = {}
    for row in rows:
        if row.problem:
            by_reason.setdefault(row.problem, []).append(row.partition)
    return [f"{', '.join(map(str, tps))}: the log's end is not known: {reason}" for reason, tps in by_reason.items()]


def moves_text(moves: Iterable[OffsetMove]) -> str:
    """Return the text of `sarameya groups offsets reset`: each partition before and after."""
    header = ("TOPIC", "PARTITION", "COMMITTED", "NEW", "LAG", "NEW-LAG", "NOTE")
    return table(
        header,
        [(*move.partition, move.before, move.after, move.lag_before, move.lag_after, _note(move)) for move in moves],
    )


def deletions_text(moves: Iterable[OffsetMove]) -> str:
    """Return the text of `sarameya groups offsets delete`: each commit to remove."""
    return table(
        ("TOPIC", "PARTITION", "COMMITTED", "NOTE"), [(*move.partition, move.before, _note(move)) for move in moves]
    )


def _note(move: OffsetMove) -> str:
    return f"not changed: {move.error}" if move.error else move.note
