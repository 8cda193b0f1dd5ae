"""Links, as a table stores them, and the note about a link in Kafka's commit metadata. Pure.

`landing/__init__.py` explains the words: link, chain, head, attempt.

A chain's links are numbered 1, 2, 3 ... and each starts where the previous one ends. So the links alone prove which
records of a partition a table holds, and a number is enough for a compare-and-swap.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Self

import attrs
import msgspec

from sarameya import TopicPartition
from sarameya_handlers.landing.errors import BrokenChainError

UNKNOWN_EPOCH = -1
"""Leader epoch of records that were written before leader epochs existed."""

UNKNOWN_COUNT = -1
"""In place of a number of rows or records that is unknown."""

UNKNOWN_BEGIN = -1
"""In place of `Origin.begin`: links of older versions do not record where their chain starts."""


class Kind(StrEnum):
    """Kind of a link."""

    RECORDS = "records"
    """Landed records. Its range includes records that a transform dropped, and dead letters."""
    GAP = "gap"
    """Records of the range that are not in the table, on purpose: `Link.reason` says why."""
    RESTATED = "restated"
    """An empty link after the head. It keeps the chain in the table's history, which expires; or it takes the next
    number, so that the attempt of a suspended owner fails."""


@attrs.frozen(slots=True, order=True)
class ChainKey:
    """Identity of a chain: one sink's, for one partition.

    Attributes:
        sink: Name under which a sink writes into a table.
    """

    sink: str
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Partition whose records the chain covers."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.sink}/{self.topic}-{self.partition}"


@attrs.frozen(slots=True, kw_only=True)
class Origin:
    """Source of a chain's records. It never changes.

    An unknown value (empty, or -1 for `begin`) matches every value. The group is always known.
    """

    group: str
    topic_id: str = ""
    """Topic id (KIP-516), 32 hexadecimal digits; empty if the brokers have none."""
    cluster_id: str = ""
    """Cluster id (KIP-78). Compared only where a topic id is missing, since a topic id says more."""
    begin: int = UNKNOWN_BEGIN
    """Offset at which the chain's first link starts; links of older versions do not record it."""

    def is_other(self, origin: Origin) -> bool:
        """Return whether the two cannot be the origin of the same records."""
        return self.group != origin.group or self.is_of_another_topic(origin) or self._differs("begin", origin)

    def is_of_another_topic(self, origin: Origin) -> bool:
        """Return whether the topics only share a name: the topic was recreated, or is another cluster's."""
        if self.topic_id and origin.topic_id:
            return self.topic_id != origin.topic_id
        return self._differs("cluster_id", origin)

    def _differs(self, field: str, origin: Origin) -> bool:
        ours, theirs, unknown = getattr(self, field), getattr(origin, field), getattr(_UNKNOWN, field)
        return unknown not in (ours, theirs) and ours != theirs


_UNKNOWN = Origin(group="")


@attrs.frozen(slots=True, kw_only=True)
class Link:
    """Link `number` (from 1) of a chain: the records `[from_offset, to_offset)` of one partition.

    Raises:
        BrokenChainError: The values contradict each other.
    """

    key: ChainKey
    number: int
    from_offset: int
    to_offset: int
    attempt: str
    """Unique id of the attempt, 32 hexadecimal digits. A retry of the same records has another one."""
    origin: Origin
    rows: int = 0
    """Rows that the link added to the table, as far as its writer knew; -1 for unknown."""
    records: int = UNKNOWN_COUNT
    """Records of the range that its owner received; -1 for unknown (links of older versions). The other offsets of the
    range have no record that the owner could see: control records, aborted transactions, compacted records."""
    dead_letters: int = 0
    """Records among them that became dead letters."""
    is_transformed: bool = False
    """True if a transform made the rows from the records, so it may have dropped some, or made several rows of one.
    Otherwise each record that is no dead letter is one row."""
    size_bytes: int = -1
    """Bytes of these rows in the table's files; -1 for unknown."""
    leader_epoch: int = UNKNOWN_EPOCH
    """Leader epoch of the last record in the range (KIP-320)."""
    kind: Kind = Kind.RECORDS
    reason: str = ""
    tried_at: int = 0
    """Time of the attempt by its owner's wall clock, in milliseconds since 1970. Shown to people, and used to restate
    idle heads before the table's history expires. Nothing else depends on it."""

    def __attrs_post_init__(self) -> None:
        if problem := self._problem():
            raise BrokenChainError(f"{self}: {problem}")

    def _problem(self) -> str | None:
        if self.number < 1 or not self.attempt:
            return "a link has a number of at least 1, and an attempt"
        if not 0 <= self.from_offset <= self.to_offset:
            return "a link's offsets are at least 0, and its end is not before its beginning"
        if self.kind is Kind.GAP and (self.from_offset == self.to_offset or not self.reason):
            return "a gap is not empty, and names its reason"
        if self.kind is Kind.RESTATED and self.from_offset != self.to_offset:
            return "a link that restates the head covers no offsets"
        if self.kind is not Kind.RECORDS and self.rows:
            return "only a link of records has rows"
        if self.records != UNKNOWN_COUNT and not 0 <= self.dead_letters <= self.records <= self.length:
            return "a link has at most one record for each offset, and at most one dead letter for each record"
        return None

    @property
    def expected_rows(self) -> int | None:
        """Number of rows that the records must have made; None if that depends on a transform, or is unknown."""
        if self.kind is not Kind.RECORDS or self.is_transformed or self.records == UNKNOWN_COUNT:
            return None
        return self.records - self.dead_letters

    @property
    def length(self) -> int:
        """Number of offsets in the range."""
        return self.to_offset - self.from_offset

    def follows(self, previous: Link) -> bool:
        """Return whether this is the next link: same chain and origin, next number, and its offsets are contiguous."""
        return (
            self.key == previous.key
            and self.number == previous.number + 1
            and self.from_offset == previous.to_offset
            and not self.origin.is_other(previous.origin)
        )

    def to_json(self) -> str:
        """Return the link as one line of JSON, complete without the table."""
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse what `to_json` returned.

        Raises:
            BrokenChainError: The text is not a link.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except BrokenChainError:
            raise
        except msgspec.MsgspecError as error:
            shown = text if isinstance(text, str) else text.decode(errors="replace")
            raise BrokenChainError(f"no link: {error}: {shown[:200]}") from error

    def __str__(self) -> str:
        return f"link {self.number} of {self.key} [{self.from_offset}, {self.to_offset})"


def check_chain(links: Iterable[Link]) -> None:
    """Check that each link follows the previous one.

    Raises:
        BrokenChainError: It does not.
    """
    previous: Link | None = None
    for link in links:
        if previous is not None and not link.follows(previous):
            raise BrokenChainError(
                f"{link} does not follow {previous}: another program has changed the chain in the table. Restore an "
                "older version of the table, and rewind the group (`sarameya rewind`)."
            )
        previous = link


@attrs.frozen(slots=True)
class CommitNote:
    """Note in a commit's metadata: link `number`, written by `attempt`, was the chain's head."""

    sink: str
    number: int
    attempt: str

    @classmethod
    def of(cls, link: Link) -> Self:
        """Return the note about a link."""
        return cls(link.key.sink, link.number, link.attempt)

    def link(self, key: ChainKey, origin: Origin, offset: int, leader_epoch: int = UNKNOWN_EPOCH) -> Link:
        """Return a link reconstructed from a commit alone: its number, attempt, and end.

        Args:
            key: Identity of the chain.
            origin: Origin of the chain.
            offset: Committed offset, which is the link's end.
            leader_epoch: Leader epoch of the commit.
        """
        return Link(
            key=key,
            number=self.number,
            from_offset=offset,
            to_offset=offset,
            attempt=self.attempt,
            origin=origin,
            leader_epoch=leader_epoch,
            kind=Kind.RESTATED,  # without a range: the commit does not have the start offset
        )

    def to_metadata(self) -> str:
        """Return the note as commit metadata: about 80 bytes of the 4,096 that Kafka accepts by default."""
        return msgspec.json.encode({_TAG: self}).decode()

    @classmethod
    def from_metadata(cls, metadata: str) -> Self | None:
        """Parse commit metadata. Return None if it is not ours."""
        try:
            decoded: dict[str, Any] = msgspec.json.decode(metadata, type=dict[str, Any])
            return msgspec.convert(decoded[_TAG], type=cls)
        except (msgspec.MsgspecError, KeyError):
            return None


_TAG = "sarameya"
