"""Completion of a partition's messages, which may finish in any order. Pure.

The committed offset is that of the lowest unfinished message. Finished messages after it travel in the commit's
metadata, so that the next owner does not repeat them. Metadata has a limit on the broker; while it would be exceeded
the tracker accepts no more messages (`has_room`).

The state is small: the unfinished offsets, and `end`, the position after the last message that was handed out. Every
other offset before `end` is finished, or has no message (compacted records, transaction markers). Metadata describes
that as alternating run lengths of unfinished and finished offsets.

Metadata counts only if it certainly describes the same records (`restored`): the commit's offset, the topic id and the
leader epoch are part of it. Metadata of other writers is ignored.

Rules that are easily broken, kept by `tests/model/test_completion_model.py`:

- No commit skips an unfinished message, whether it was handed out or only known from metadata.
- Metadata never covers messages that are unfinished, nor offsets at `end` or after it.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Iterator

import attrs

from sarameya.model import NO_LEADER_EPOCH, CommittedOffset

METADATA_BYTES = 4096
"""Limit of a commit's metadata: the default of a broker's `offset.metadata.max.bytes`."""

_PREFIX = "sarameya-completion-1:"
_ID_BYTES = 16
_MOST_UNFINISHED = 100_000
"""Limit for metadata of others: more unfinished messages do not fit into it if it is genuine."""


@attrs.frozen(slots=True)
class Completion:
    """The content of a commit's metadata.

    Attributes:
        topic_id: Id of the topic, as 32 hex digits; empty for a broker without topic ids.
        offset: The committed offset: that of the lowest unfinished message, or `end`.
        end: Position after the last message that was handed out.
        epoch: Leader epoch of that message.
        unfinished: Offsets of the unfinished messages, ascending; the first one is `offset`.
    """

    topic_id: str
    offset: int
    end: int
    epoch: int
    unfinished: tuple[int, ...]

    def metadata(self) -> str:
        """Return the text for a commit's metadata; empty if no message after `offset` is finished."""
        if self.end == self.offset or len(self.unfinished) == self.end - self.offset:
            return ""
        topic_id = bytes.fromhex(self.topic_id) if self.topic_id else bytes(_ID_BYTES)
        numbers = [self.offset, self.epoch + 1, *_runs(self.unfinished, self.offset, self.end)]
        return _PREFIX + b64encode(topic_id + b"".join(map(_varint, numbers))).decode()

    @classmethod
    def of_commit(cls, commit: CommittedOffset) -> Completion | None:
        """Return the completion in a commit's metadata; None if it has none, or one of another offset."""
        if not commit.metadata.startswith(_PREFIX):
            return None
        try:
            data = b64decode(commit.metadata[len(_PREFIX) :], validate=True)
            offset, epoch, *runs = _varints(data[_ID_BYTES:])
        except (binascii.Error, ValueError):
            return None
        unfinished, end = [], offset
        for number, length in enumerate(runs):
            if number % 2 == 0:
                if len(unfinished) + length > _MOST_UNFINISHED:
                    return None
                unfinished += range(end, end + length)
            end += length
        if offset != commit.offset or end >= 2**63:
            return None
        topic_id = data[:_ID_BYTES].hex() if any(data[:_ID_BYTES]) else ""
        return cls(topic_id, offset, end, epoch - 1, tuple(unfinished))


class CompletionTracker:
    """Unfinished messages of one partition.

    Args:
        position: Offset of the next message.
        topic_id: Id of the topic, as 32 hex digits; empty for a broker without topic ids.
        metadata_bytes: Limit of a commit's metadata.
    """

    def __init__(self, position: int, topic_id: str = "", *, metadata_bytes: int = METADATA_BYTES) -> None:
        self.end = position
        """Position after the last message that was handed out."""
        self._topic_id = topic_id
        self._epoch = NO_LEADER_EPOCH
        self._unfinished: set[int] = set()
        # All unfinished offsets, ascending, and finished ones that have not been dropped yet.
        self._order: deque[int] = deque()
        self._metadata_bytes = metadata_bytes
        # Bytes of the runs; base64 makes four bytes of three.
        self._limit = (metadata_bytes - len(_PREFIX)) // 4 * 3 - _ID_BYTES
        # So many unfinished messages are known to fit, as long as the distance from the first to `end` has this length.
        self._fits = (0, 0)

    @classmethod
    def restored(
        cls,
        commit: CommittedOffset,
        topic_id: str,
        epoch_end: int | None,
        *,
        metadata_bytes: int = METADATA_BYTES,
    ) -> CompletionTracker:
        """Return a tracker that starts at a commit, and knows the finished messages in its metadata.

        The metadata is discarded if it belongs to another topic or offset, or if the log may have other records there.

        Args:
            commit: The group's committed offset.
            topic_id: Id of the topic now.
            epoch_end: End offset of the metadata's leader epoch in the log (KIP-320, `Completion.epoch`); None if the
                brokers do not know.
            metadata_bytes: Limit of a commit's metadata.
        """
        tracker = cls(commit.offset, topic_id, metadata_bytes=metadata_bytes)
        found = Completion.of_commit(commit)
        if found is not None and found.topic_id == topic_id and epoch_end is not None and epoch_end >= found.end:
            tracker.end, tracker._epoch = found.end, found.epoch
            tracker._order.extend(found.unfinished)
            tracker._unfinished.update(found.unfinished)
        return tracker

    def hand_out(self, offset: int, leader_epoch: int = NO_LEADER_EPOCH) -> bool:
        """Note that a message is handed out. Call it in the order of the log.

        Returns:
            False if the message was finished by an earlier owner: it must not be handled again.
        """
        if offset < self.end:
            return offset in self._unfinished
        self.end, self._epoch = offset + 1, leader_epoch
        self._unfinished.add(offset)
        self._order.append(offset)
        return True

    def finish(self, offset: int) -> None:
        """Note that a message is finished. A message that is not unfinished is ignored."""
        self._unfinished.discard(offset)

    def pass_over(self, position: int) -> None:
        """Note that the log has no messages before `position` that were not handed out."""
        self.end = max(self.end, position)

    @property
    def position(self) -> int:
        """Offset to commit: that of the lowest unfinished message, or `end`."""
        order = self._order
        while order and order[0] not in self._unfinished:
            order.popleft()
        return order[0] if order else self.end

    @property
    def unfinished(self) -> int:
        """Number of unfinished messages."""
        return len(self._unfinished)

    @property
    def has_room(self) -> bool:
        """True if one more message may be handed out: the metadata stays within its limit, whatever finishes."""
        width = _width(self.end + 1 - self.position)
        count, known_width = self._fits
        if self.unfinished < count and width <= known_width:
            return True
        # Each unfinished message costs at most a run of its own and one of finished messages after it.
        fixed = _width(self.end) + _width(self._epoch + 1) + width
        self._fits = ((self._limit - fixed) // (1 + width), width)
        return self.unfinished < self._fits[0]

    def completion(self) -> Completion:
        """Return the state, to be committed."""
        position = self.position
        return Completion(self._topic_id, position, self.end, self._epoch, tuple(sorted(self._unfinished)))

    def commit(self, leader_epoch: int = NO_LEADER_EPOCH) -> CommittedOffset:
        """Return the offset to commit, with metadata if messages after it are finished.

        The metadata is left out if it is too long, which a long gap in the log may cause (`pass_over`).

        Args:
            leader_epoch: Leader epoch of the last message before the offset.
        """
        found = self.completion()
        metadata = found.metadata()
        return CommittedOffset(found.offset, metadata if len(metadata) <= self._metadata_bytes else "", leader_epoch)


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
