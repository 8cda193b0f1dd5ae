"""A reset planned: which offset becomes which, and what that does to the lag. Pure; committing it is `asking`'s."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from enum import Enum, auto

import attrs

from sarameya.model import TopicPartition
from sarameya.net.log_offsets import NO_SUCH_OFFSET, LogOffsets
from sarameya.service.groups.refusal import GroupChangeError
from sarameya.service.groups.report import Commits


class Kind(Enum):
    """To what a group's offsets can be reset."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    SHIFT = auto()
    TIME = auto()
    CURRENT = auto()


@attrs.frozen(slots=True)
class Target:
    """Where to: `value` is the offset, the shift, or the time in milliseconds since 1970."""

    kind: Kind
    value: int = 0

    def __str__(self) -> str:
        match self.kind:
            case Kind.EARLIEST:
                return "the start of the log"
            case Kind.LATEST:
                return "the end of the log"
            case Kind.OFFSET:
                return f"offset {self.value}"
            case Kind.SHIFT:
                return f"the committed offset {self.value:+d}"
            case Kind.TIME:
                moment = datetime.fromtimestamp(self.value / 1000, UTC)
                return f"the first message from {moment.isoformat(timespec='milliseconds')} on"
            case Kind.CURRENT:
                return "the committed offset, the end of the log where there is none"


@attrs.frozen(slots=True)
class Move:
    """One partition's part of a reset. `after` is None where nothing is committed: `note` or `error` says why."""

    partition: TopicPartition
    before: int | None
    after: int | None
    log_start: int | None = None
    log_end: int | None = None
    note: str = ""
    error: str = ""
    """Why the coordinator refused it."""

    @property
    def lag_before(self) -> int | None:
        return None if self.before is None or self.log_end is None else self.log_end - self.before

    @property
    def lag_after(self) -> int | None:
        return None if self.after is None or self.log_end is None else self.log_end - self.after


@attrs.frozen(slots=True)
class Logs:
    """Where the logs of the partitions start and end, and where the target's time is in them, if it has one."""

    starts: LogOffsets
    ends: LogOffsets
    at_time: LogOffsets = attrs.field(factory=lambda: LogOffsets({}))

    def why_missing(self, partition: TopicPartition) -> str:
        """Why something of a partition is not known; empty if all is."""
        for offsets in (self.ends, self.starts, self.at_time):
            if partition in offsets.missing:
                return offsets.missing[partition]
        return ""


def plan(
    target: Target,
    partitions: Iterable[TopicPartition],
    committed: Commits,
    logs: Logs,
    gone: Collection[TopicPartition] = (),
) -> list[Move]:
    """A move for each partition; an offset outside the log becomes the nearest inside. `gone` ones stay as they are.

    Raises GroupChangeError, naming every partition that has no offset to go to.
    """
    moves: list[Move] = []
    problems: list[str] = []
    for partition in sorted(partitions):
        before = committed[partition].offset if partition in committed else None
        if partition in gone:
            moves.append(Move(partition, before, None, note="left as it is: there is no such partition any more"))
            continue
        start, end = logs.starts.found.get(partition), logs.ends.found.get(partition)
        reason = logs.why_missing(partition)
        if reason or start is None or end is None:
            problems.append(f"{partition}: {reason or 'its log is not known'}")
            continue
        wanted, note = _wanted(target, before, start, end, logs.at_time.found.get(partition))
        if wanted is None:
            problems.append(f"{partition}: nothing is committed that could be shifted")
            continue
        if not start <= wanted <= end:
            note = f"{wanted} is {'before the start' if wanted < start else 'behind the end'} of the log"
            wanted = min(max(wanted, start), end)
        moves.append(Move(partition, before, wanted, start, end, note))
    if problems:
        raise GroupChangeError("; ".join(problems))
    return moves


def _wanted(target: Target, before: int | None, start: int, end: int, at_time: int | None) -> tuple[int | None, str]:
    """The offset that the target names, be it in the log or not, and what is to be said of it."""
    match target.kind:
        case Kind.EARLIEST:
            return start, ""
        case Kind.LATEST:
            return end, ""
        case Kind.OFFSET:
            return target.value, ""
        case Kind.SHIFT:
            return None if before is None else before + target.value, ""
        case Kind.TIME:
            if at_time is None or at_time == NO_SUCH_OFFSET:
                return end, "no message from then on: the end of the log"
            return at_time, ""
        case Kind.CURRENT:
            return (end, "nothing was committed: the end of the log") if before is None else (before, "")
