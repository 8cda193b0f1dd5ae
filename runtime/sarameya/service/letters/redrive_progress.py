"""Record of the letters of a partition that have been sent back, as the metadata of a commit. Pure.

The committed offset is that of the first letter that has not been sent. Letters beyond it that have been sent are runs
of offsets in the metadata: those between them were left out by a filter, or could not be sent. Metadata has a limit on
the broker; `fits` is False beyond it.

Metadata of another topic is ignored together with its offset: the topic was deleted, and created again. So is metadata
that others wrote: then the committed offset alone counts, for example after `sarameya groups offsets reset`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from sarameya.model import CommittedOffset
from sarameya.protocol.completion_tracker import METADATA_BYTES

_PREFIX = "sarameya-redriven-1:"


class _Stored(msgspec.Struct, array_like=True):
    """Content of the metadata."""

    topic_id: str
    position: int
    """The committed offset: the metadata is void for any other."""
    lengths: list[int]
    """Alternating lengths of runs that were not sent and runs that were, from `position` on."""
    writer: str
    """Id of the redrive that has made the commit."""


class RedriveProgress:
    """Offsets of one partition that are done: sent back, or without a letter.

    Args:
        position: Offset before which all is done.
        runs: Further offsets that are done, as ascending (start, end) with at least one offset between them.
    """

    def __init__(self, position: int, runs: Iterable[tuple[int, int]] = ()) -> None:
        self.position = position
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in runs:
            self._starts.append(start)
            self._ends.append(end)

    @classmethod
    def of(cls, commit: CommittedOffset | None, topic_id: str, log_start: int) -> RedriveProgress:
        """Return the progress in a commit.

        Args:
            commit: The commit, if there is one.
            topic_id: Id of the topic now; empty for brokers without topic ids.
            log_start: Start of the log. Earlier offsets count as done.
        """
        progress = cls(0)
        if commit is not None:
            stored = _stored(commit.metadata)
            if stored is None or stored.position != commit.offset:
                progress = cls(commit.offset)
            elif stored.topic_id == topic_id:
                progress = cls(commit.offset, _runs(stored))
        progress.add(0, log_start)
        return progress

    @property
    def runs(self) -> list[tuple[int, int]]:
        """Offsets after `position` that are done, as ascending (start, end)."""
        return list(zip(self._starts, self._ends, strict=True))

    def __contains__(self, offset: int) -> bool:
        if offset < self.position:
            return True
        at = bisect_right(self._starts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def add(self, start: int, end: int) -> None:
        """Note that the offsets from `start` up to but not including `end` are done."""
        start = max(start, self.position)
        if start >= end:
            return
        starts, ends = self._starts, self._ends
        first, last = bisect_left(ends, start), bisect_right(starts, end)  # the runs that it meets
        if first < last:
            start, end = min(start, starts[first]), max(end, ends[last - 1])
        starts[first:last], ends[first:last] = [start], [end]
        if start == self.position:
            self.position = end
            del starts[0], ends[0]

    def copy(self) -> RedriveProgress:
        """Return a copy."""
        return RedriveProgress(self.position, self.runs)

    def done_between(self, start: int, end: int) -> int:
        """Return how many of the offsets from `start` up to but not including `end` are done."""
        whole = [(0, self.position), *self.runs]
        return sum(max(0, min(end, last) - max(start, first)) for first, last in whole)

    def commit(self, topic_id: str, writer: str) -> CommittedOffset:
        """Return the commit that contains this progress.

        Args:
            topic_id: Id of the topic; empty for brokers without topic ids.
            writer: Id of the redrive.
        """
        edges = [self.position, *(edge for run in self.runs for edge in run)]
        stored = _Stored(topic_id, self.position, [after - before for before, after in pairwise(edges)], writer)
        return CommittedOffset(self.position, _PREFIX + b64encode(msgspec.msgpack.encode(stored)).decode())

    def fits(self, topic_id: str, writer: str) -> bool:
        """Return whether brokers accept the commit."""
        return len(self.commit(topic_id, writer).metadata) <= METADATA_BYTES


def _stored(metadata: str) -> _Stored | None:
    """Return the content of metadata; None if it was not written by this module."""
    if not metadata.startswith(_PREFIX):
        return None
    try:
        stored = msgspec.msgpack.decode(b64decode(metadata[len(_PREFIX) :], validate=True), type=_Stored)
    except (ValueError, msgspec.DecodeError):  # no base64, no UTF-8; no msgpack, values of other types
        return None
    return stored if all(length > 0 for length in stored.lengths) and len(stored.lengths) % 2 == 0 else None


def _runs(stored: _Stored) -> Iterator[tuple[int, int]]:
    offset = stored.position
    lengths = iter(stored.lengths)
    for left_out, sent in zip(lengths, lengths, strict=True):
        yield offset + left_out, offset + left_out + sent
        offset += left_out + sent
