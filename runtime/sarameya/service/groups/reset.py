"""The plan of a reset: the new offset of each partition, and its lag. Pure; `operations` commits it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from enum import Enum, auto

import attrs

from sarameya.model import TopicPartition
from sarameya.net.log_offsets import NO_SUCH_OFFSET, LogOffsets
from sarameya.service.groups.checks import GroupChangeError
from sarameya.service.groups.report import Commits


class ResetKind(Enum):
    """Kinds of new offsets."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    SHIFT = auto()
    TIME = auto()
    CURRENT = auto()


@attrs.frozen(slots=True)
class ResetTarget:
    """The new offsets. `value` is the offset, the shift, or the time in milliseconds since 1970."""

    kind: ResetKind
    value: int = 0

    def __str__(self) -> str:
        match self.kind:
            case ResetKind.EARLIEST:
                return "the start of the log"
            case ResetKind.LATEST:
                return "the end of the log"
            case ResetKind.OFFSET:
                return f"offset {self.value}"
            case ResetKind.SHIFT:
                return f"the committed offset {self.value:+d}"
            case ResetKind.TIME:
                moment = datetime.fromtimestamp(self.value / 1000, UTC)
                return f"the first message from {moment.isoformat(timespec='milliseconds')} on"
            case ResetKind.CURRENT:
                return "the committed offset, the end of the log where there is none"


@attrs.frozen(slots=True)
class OffsetMove:
    """The change of one partition. `after` is None if nothing is committed; `note` or `error` has the reason."""

    partition: TopicPartition
    before: int | None
    after: int | None
    log_start: int | None = None
    log_end: int | None = None
    note: str = ""
    error: str = ""
    """The coordinator's reason for its refusal."""

    @property
    def lag_before(self) -> int | None:
        return None if self.before is None or self.log_end is None else self.log_end - self.before

    @property
    def lag_after(self) -> int | None:
        return None if self.after is None or self.log_end is None else self.log_end - self.after


@attrs.frozen(slots=True)
class LogBounds:
    """Log starts and ends of the partitions, and the offsets of the target's time, if it has one."""

    starts: LogOffsets
    ends: LogOffsets
    at_time: LogOffsets = attrs.field(factory=lambda: LogOffsets({}))

    def why_missing(self, partition: TopicPartition) -> str:
        """Return the reason why an offset of the partition is unknown; empty if all are known."""
        for offsets in (self.ends, self.starts, self.at_time):
            if partition in offsets.missing:
                return offsets.missing[partition]
        return ""


def plan(
    target: ResetTarget,
    partitions: Iterable[TopicPartition],
    committed: Commits,
    logs: LogBounds,
    deleted: Collection[TopicPartition] = (),
) -> list[OffsetMove]:
    """Return a move for each partition. An offset outside the log becomes the nearest offset inside.

    Args:
        target: The new offsets.
        partitions: The partitions to change.
        committed: The group's commits.
        logs: The log offsets of the partitions.
        deleted: Partitions that no longer exist. Their commits stay.

    Raises:
        GroupChangeError: No new offset can be computed for some partitions. The message names all of them.
    """
    moves: list[OffsetMove] = []
    problems: list[str] = []
    for partition in sorted(partitions):
        before = committed[partition].offset if partition in committed else None
        if partition in deleted:
            moves.append(OffsetMove(partition, before, None, note="left as it is: there is no such partition any more"))
            continue
        start, end = logs.starts.found.get(partition), logs.ends.found.get(partition)
        reason = logs.why_missing(partition)
        if reason or start is None or end is None:
            problems.append(f"{partition}: {reason or 'its log is not known'}")
            continue
        wanted, note = _wanted(target, before, start, end, logs.at_time.found.get(partition))
        if wanted is None:
            problems.append(f"{partition}: it has no commit to shift")
            continue
        if not start <= wanted <= end:
            note = f"{wanted} is {'before the start' if wanted < start else 'after the end'} of the log"
            wanted = min(max(wanted, start), end)
        moves.append(OffsetMove(partition, before, wanted, start, end, note))
    if problems:
        raise GroupChangeError("; ".join(problems))
    return moves


def _wanted(
    target: ResetTarget, before: int | None, start: int, end: int, at_time: int | None
) -> tuple[int | None, str]:
    """Return the target's offset, which may be outside the log, and a note."""
    match target.kind:
        case ResetKind.EARLIEST:
            return start, ""
        case ResetKind.LATEST:
            return end, ""
        case ResetKind.OFFSET:
            return target.value, ""
        case ResetKind.SHIFT:
            return None if before is None else before + target.value, ""
        case ResetKind.TIME:
            if at_time is None or at_time == NO_SUCH_OFFSET:
                return end, "no message at or after this time: the end of the log"
            return at_time, ""
        case ResetKind.CURRENT:
            return (end, "nothing was committed: the end of the log") if before is None else (before, "")
