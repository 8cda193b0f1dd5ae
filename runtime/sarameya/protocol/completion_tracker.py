"""Completion of a partition's messages, which may finish in any order. Pure.

The committed offset is that of the lowest unfinished message. Finished messages after it travel in the commit's
metadata, so that the next owner does not repeat them. Metadata has a limit on the broker; while it would be exceeded
the tracker accepts no more messages (`has_room`).

The state is small: the unfinished offsets, and `end`, the position after the last message that was handed out. Every
other offset before `end` is finished, or has no message (compacted records, transaction markers). Metadata describes
that as alternating run lengths of unfinished and finished offsets.

A record is identified by its offset and its leader epoch: one leader writes each offset once. So metadata contains the
leader epoch of its messages, and `hand_out` discards it from the first message on that has another epoch: the log was
truncated, and has other records there. Metadata of another topic, another offset or another writer is ignored.

Rules that are easily broken, kept by `tests/model/test_completion_model.py`:

- No commit skips an unfinished message, whether it was handed out or only known from metadata.
- Metadata never covers messages that are unfinished, nor offsets at `end` or after it.
- A message is skipped only if this very record is finished.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import attrs

from sarameya.model import NO_LEADER_EPOCH, CommittedOffset

METADATA_BYTES = 4096
"""Limit of a commit's metadata: the default of a broker's `offset.metadata.max.bytes`."""

_PREFIX = "sarameya-completion-1:"
_ID_BYTES = 16
_MOST_UNFINISHED = 100_000
"""Limit for metadata of others: more unfinished messages do not fit into it if it is genuine."""
_WIDEST = 9
"""Maximum of bytes of a varint: offsets have 63 bits."""


def _ignore(offset: int) -> None:
    """Default of `CompletionTracker.on_gone`."""


def is_completion(metadata: str) -> bool:
    """Return whether a commit's metadata was written by a completion tracker."""
    return metadata.startswith(_PREFIX)


@attrs.frozen(slots=True)
class Completion:
    """The content of a commit's metadata.

    Attributes:
        topic_id: Id of the topic, as 32 hex digits; empty for a broker without topic ids.
        offset: The committed offset: that of the lowest unfinished message, or `end`.
        end: Position after the last message that is described.
        epoch: Leader epoch of the messages from `offset` to `end`.
        unfinished: Offsets of the unfinished messages, ascending; the first one is `offset`.
    """

    topic_id: str
    offset: int
    end: int
    epoch: int
    unfinished: tuple[int, ...]

    def metadata(self) -> str:
        """Return the text for a commit's metadata; empty if it would describe no finished message."""
        if len(self.unfinished) == self.end - self.offset or self.epoch == NO_LEADER_EPOCH:
            return ""
        topic_id = bytes.fromhex(self.topic_id) if self.topic_id else bytes(_ID_BYTES)
        numbers = [self.offset, self.epoch, *_runs(self.unfinished, self.offset, self.end)]
        return _PREFIX + b64encode(topic_id + b"".join(map(_varint, numbers))).decode()

    @classmethod
    def of_commit(cls, commit: CommittedOffset) -> Completion | None:
        """Return the completion in a commit's metadata; None if it has none, or one of another offset."""
        if not is_completion(commit.metadata):
            return None
        try:
            data = b64decode(commit.metadata[len(_PREFIX) :], validate=True)
            offset, epoch, *runs = _varints(data[_ID_BYTES:])
        except (binascii.Error, ValueError):
            return None
        unfinished: list[int] = []
        end = offset
        for number, length in enumerate(runs):
            if number % 2 == 0:
                if len(unfinished) + length > _MOST_UNFINISHED:
                    return None
                unfinished += range(end, end + length)
            end += length
        if offset != commit.offset or end >= 2**63:
            return None
        topic_id = data[:_ID_BYTES].hex() if any(data[:_ID_BYTES]) else ""
        return cls(topic_id, offset, end, epoch, tuple(unfinished))


class CompletionTracker:
    """Unfinished messages of one partition.

    Args:
        start: The group's commit, or the offset of the first message.
        topic_id: Id of the topic now, as 32 hex digits; empty for a broker without topic ids. Metadata of another topic
            is discarded.
        metadata_bytes: Limit of a commit's metadata.
        on_gone: Called with the offset of each message that is not in flight any more, since it is finished, or since
            the log was truncated.
    """

    def __init__(
        self,
        start: CommittedOffset,
        topic_id: str = "",
        *,
        metadata_bytes: int = METADATA_BYTES,
        on_gone: Callable[[int], None] = _ignore,
    ) -> None:
        self._on_gone = on_gone
        self._end = start.offset
        self._topic_id = topic_id
        # Messages that were handed out: offset -> leader epoch.
        self._in_flight: dict[int, int] = {}
        # Offsets that were handed out, ascending. May contain finished ones that were not dropped yet.
        self._order: deque[int] = deque()
        # Metadata of an earlier owner: the messages that were not handed out again yet. From the first one on, this
        # describes the log up to `_end`.
        self._known: deque[int] = deque()
        self._known_epoch = NO_LEADER_EPOCH
        # Position after the last message that was handed out, or skipped as finished.
        self._read_to = start.offset
        # (offset, epoch): all messages from this offset on, up to the next entry's, have this leader epoch.
        self._epochs: deque[tuple[int, int]] = deque([(0, start.leader_epoch)])
        self.limit_metadata(metadata_bytes)
        found = Completion.of_commit(start)
        if found is not None and found.topic_id == topic_id:
            self._end, self._known_epoch = found.end, found.epoch
            self._known.extend(found.unfinished)
            self._epochs.append((start.offset, found.epoch))

    def limit_metadata(self, metadata_bytes: int) -> None:
        """Set the limit of a commit's metadata. Messages that are in flight may exceed it: `commit` has none then."""
        self._metadata_bytes = metadata_bytes
        # Bytes of the runs; base64 makes four bytes of three.
        self._limit = (metadata_bytes - len(_PREFIX)) // 4 * 3 - _ID_BYTES
        # So many unfinished messages fit, whatever their offsets are.
        self._surely_fit = self._limit // (1 + _WIDEST) - 3

    def hand_out(self, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> bool:
        """Note that the next message of the log is about to be handled.

        If the offset is not beyond that of the message before, the log was truncated: everything from this offset on is
        forgotten.

        Returns:
            False if the message was finished by an earlier owner: it must not be handled again.
        """
        if offset < self._read_to:
            self._forget(offset)
        known = self._known
        while known and known[0] < offset:
            known.popleft()  # it was compacted or deleted since
        if offset < self._end:
            if leader_epoch == self._known_epoch:
                self._read_to = offset + 1
                if not known or known[0] != offset:
                    return False
                known.popleft()
                self._in_flight[offset] = leader_epoch
                self._order.append(offset)
                return True
            self._forget(offset)
        if leader_epoch != self._epochs[-1][1]:
            self._epochs.append((offset, leader_epoch))
        self._end = self._read_to = offset + 1
        self._in_flight[offset] = leader_epoch
        self._order.append(offset)
        return True

    def _forget(self, offset: int) -> None:
        """Forget all messages from this offset on: the log has others there."""
        while self._order and self._order[-1] >= offset:
            lost = self._order.pop()
            if self._in_flight.pop(lost, None) is not None:
                self._on_gone(lost)
        while len(self._epochs) > 1 and self._epochs[-1][0] >= offset:
            self._epochs.pop()
        self._known.clear()
        self._end = self._read_to = min(offset, self._end)

    def finish(self, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> None:
        """Note that a message is finished.

        It is ignored if it is not in flight, or if it is a record that the log has lost meanwhile.
        """
        if self._in_flight.get(offset) == leader_epoch:
            del self._in_flight[offset]
            self._on_gone(offset)

    def finish_before(self, position: int) -> None:
        """Note that all messages before this position are finished, as far as they were handed out."""
        for offset in [offset for offset in self._in_flight if offset < position]:
            del self._in_flight[offset]
            self._on_gone(offset)

    @property
    def position(self) -> int:
        """Offset to commit: that of the lowest unfinished message, or the position after the last message."""
        order = self._order
        while order and order[0] not in self._in_flight:
            order.popleft()
        if order:
            return order[0]
        return self._known[0] if self._known else self._end

    @property
    def in_flight(self) -> int:
        """Number of messages that were handed out, and are not finished."""
        return len(self._in_flight)

    @property
    def has_room(self) -> bool:
        """True if one more message may be handed out: the metadata stays within its limit, whatever finishes."""
        unfinished = len(self._in_flight) + len(self._known)
        if unfinished < self._surely_fit:
            return True
        # Each unfinished message costs at most a run of its own and one of finished messages after it.
        width = _width(self._end + 1 - self.position)
        fixed = _width(self._end) + _width(max(self._epochs[-1][1], 0)) + width
        return unfinished < (self._limit - fixed) // (1 + width) or not self._in_flight

    def completion(self) -> Completion:
        """Return the state, to be committed. It ends where the leader epoch changes."""
        position, end = self.position, self._end
        self._drop_epochs(position)
        epochs = iter(self._epochs)
        epoch = NO_LEADER_EPOCH
        for start, of_start in epochs:
            if start > position:
                end = start
                break
            epoch = of_start
        unfinished = sorted(offset for offset in (*self._in_flight, *self._known) if offset < end)
        return Completion(self._topic_id, position, end, epoch, tuple(unfinished))

    def commit(self) -> CommittedOffset:
        """Return the offset to commit, with metadata if messages after it are finished.

        The metadata is left out if it is too long, which a long gap in the log or a lower limit may cause.
        """
        found = self.completion()
        metadata = found.metadata()
        if len(metadata) > self._metadata_bytes:
            metadata = ""
        return CommittedOffset(found.offset, metadata, self._epoch_before(found.offset))

    def _epoch_before(self, position: int) -> int:
        """Return the leader epoch of the last message before `position`."""
        epoch = NO_LEADER_EPOCH
        for start, of_start in self._epochs:
            if start >= position:
                break
            epoch = of_start
        return epoch

    def _drop_epochs(self, position: int) -> None:
        """Drop the leader epochs of messages that lie before the last message before `position`."""
        while len(self._epochs) > 1 and self._epochs[1][0] < position:
            self._epochs.popleft()


def _runs(unfinished: Iterable[int], start: int, end: int) -> Iterator[int]:
    """Yield alternating lengths of unfinished and finished runs of offsets, from `start` to `end`."""
    length, position = 0, start
    for offset in unfinished:
        if offset != position:
            yield length
            yield offset - position
            length, position = 0, offset
        length, position = length + 1, position + 1
    yield length
    if end != position:
        yield end - position


def _width(number: int) -> int:
    """Return the number of bytes of a varint."""
    return max(1, -(-number.bit_length() // 7))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _varints(data: bytes) -> Iterator[int]:
    """Yield the numbers in `data`. Raises ValueError if it ends within one."""
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("a varint without an end")
