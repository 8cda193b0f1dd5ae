"""What a table remembers of each landing, and what Kafka's commit says of it. Pure.

A chain's links are numbered 1, 2, 3 ... and each begins where the one before it ends, so that what a table holds of a
partition can be proved from its links alone, and a compare-and-swap needs no more than a number.
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
"""The leader epoch of records older than leader epochs."""

UNKNOWN_BEGIN = -1
"""The begin of a chain whose links do not say it."""


class Kind(StrEnum):
    """What a link stands for."""

    RECORDS = "records"
    """Records that were landed; those that a transform dropped, or dead letters, are in its range too."""
    GAP = "gap"
    """Records that were left out on purpose, for the `reason` that it names."""
    RESTATED = "restated"
    """Nothing: what the one before it said, said anew, before a table forgets it."""


@attrs.frozen(slots=True, order=True)
class ChainKey:
    """Whose chain: a sink's, of one partition. `sink` is the name under which a sink writes into a table."""

    sink: str
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose records the chain is of."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"{self.sink}/{self.topic}-{self.partition}"


@attrs.frozen(slots=True, kw_only=True)
class Origin:
    """The source of a chain's records; it never changes. What is unknown is empty, and differs from nothing."""

    group: str
    topic_id: str = ""
    """The topic's id (KIP-516), 32 hexadecimal digits; empty where its brokers have none."""
    cluster_id: str = ""
    """The cluster's id (KIP-78). It only counts where a topic id is missing, which says more."""
    begin: int = UNKNOWN_BEGIN
    """The offset at which the chain's first link begins; links of older versions do not say it."""

    def is_other(self, origin: Origin) -> bool:
        """Return whether these cannot be the origin of the same records."""
        return self.group != origin.group or self.is_of_another_topic(origin) or self._differs("begin", origin)

    def is_of_another_topic(self, origin: Origin) -> bool:
        """Return whether the topics only share their name: made anew, or of another cluster."""
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

    Raises BrokenChainError for what cannot be a link.
    """

    key: ChainKey
    number: int
    from_offset: int
    to_offset: int
    attempt: str
    """Unique to each try, also to land the same records: 32 hexadecimal digits."""
    origin: Origin
    rows: int = 0
    """Rows that the table got by it, as far as whoever wrote the link knows; -1 for unknown."""
    size_bytes: int = -1
    """What they take in the table's files; -1 for unknown."""
    leader_epoch: int = UNKNOWN_EPOCH
    """Of the last record that it covers (KIP-320)."""
    kind: Kind = Kind.RECORDS
    reason: str = ""
    tried_at: int = 0
    """When it was tried, by the wall clock of whoever tried it, in milliseconds since 1970. For people, and for how
    long a table remembers; nothing else is decided by it."""

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
            return "a link that re-states covers nothing"
        if self.kind is not Kind.RECORDS and self.rows:
            return "only records make rows"
        return None

    def follows(self, previous: Link) -> bool:
        """Whether it is the next one: dense and contiguous, of the same chain and origin."""
        return (
            self.key == previous.key
            and self.number == previous.number + 1
            and self.from_offset == previous.to_offset
            and not self.origin.is_other(previous.origin)
        )

    def to_json(self) -> str:
        """One line, with what is needed to read it back without the table."""
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Raises BrokenChainError for anything that `to_json` has not made."""
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
    """Raises BrokenChainError unless each of `links`, in order, follows the one before it."""
    previous: Link | None = None
    for link in links:
        if previous is not None and not link.follows(previous):
            raise BrokenChainError(
                f"{link} does not follow {previous}: somebody else has written into the table's chain, or removed of it"
            )
        previous = link


@attrs.frozen(slots=True)
class Note:
    """What the metadata of a commit says: `number` was this sink's head, written by `attempt`."""

    sink: str
    number: int
    attempt: str

    @classmethod
    def of(cls, link: Link) -> Self:
        return cls(link.key.sink, link.number, link.attempt)

    def link(self, key: ChainKey, origin: Origin, offset: int, leader_epoch: int = UNKNOWN_EPOCH) -> Link:
        """What is left of the link where nothing but the commit at `offset` tells of it: which it was, and its end."""
        return Link(
            key=key,
            number=self.number,
            from_offset=offset,
            to_offset=offset,
            attempt=self.attempt,
            origin=origin,
            leader_epoch=leader_epoch,
            kind=Kind.RESTATED,
        )

    def to_metadata(self) -> str:
        """For a commit's metadata: some eighty bytes, of the 4,096 that Kafka takes by default."""
        return msgspec.json.encode({_TAG: self}).decode()

    @classmethod
    def from_metadata(cls, metadata: str) -> Self | None:
        """None for what others have written there."""
        try:
            told: dict[str, Any] = msgspec.json.decode(metadata, type=dict[str, Any])
            return msgspec.convert(told[_TAG], type=cls)
        except (msgspec.MsgspecError, KeyError):
            return None


_TAG = "sarameya"
