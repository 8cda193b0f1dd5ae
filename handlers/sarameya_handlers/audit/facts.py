"""Facts that an audit collects about a table, and about the cluster that its records come from. Pure.

`verify/fact_collection.py` collects them, `verify/verdict.py` judges them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from sarameya import CommittedOffset, TopicPartition
from sarameya_handlers.landing.directory.data_files import Unpublished
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.table import Leftover


@attrs.frozen(slots=True, kw_only=True)
class ChainFacts:
    """A chain, as the table has it."""

    key: ChainKey
    head: Link | None
    """The last link according to the table, read before all links; None if there is none."""
    links: tuple[Link, ...] = ()
    """All links that the table remembers, in order, read before rows were counted."""
    later: tuple[Link, ...] = ()
    """Links that were appended while rows were counted."""
    problem: str = ""
    """Why the links could not be read, or not to the end."""

    @property
    def last(self) -> Link | None:
        """The last known link."""
        known = (*self.links, *self.later)
        return known[-1] if known else self.head


@attrs.frozen(slots=True, order=True)
class Span:
    """A range of offsets `[start, stop)` whose rows are counted together."""

    topic: str
    partition: int
    start: int
    stop: int
    sink: str
    number: int
    """Number of the link, or FORGOTTEN, or BEYOND."""


FORGOTTEN = 0
"""In place of a link's number: offsets before the oldest link that the table remembers."""
BEYOND = -1
"""In place of a link's number: offsets after the last link."""


@attrs.frozen(slots=True)
class Count:
    """The number of rows in a span, of different offsets among them, and the first and last offset."""

    rows: int
    offsets: int
    first: int
    last: int

    @property
    def repeated(self) -> int:
        """Rows beyond the first of each offset."""
        return self.rows - self.offsets


@attrs.frozen(slots=True)
class Stray:
    """Rows outside of all spans.

    `topic` or `partition` is None if the rows have none; the offsets are None then, too.
    """

    topic: str | None
    partition: int | None
    rows: int
    first: int | None
    last: int | None


@attrs.frozen(slots=True)
class Counts:
    """Rows of a table, by span. A span without rows has no count."""

    spans: Mapping[Span, Count]
    strays: Sequence[Stray] = ()

    def of(self, link: Link) -> Count:
        """Return the count of a link's range."""
        key = link.key
        span = Span(key.topic, key.partition, link.from_offset, link.to_offset, key.sink, link.number)
        return self.spans.get(span, Count(0, 0, 0, 0))

    @property
    def rows(self) -> int:
        """Number of rows in the whole table."""
        return sum(count.rows for count in self.spans.values()) + sum(stray.rows for stray in self.strays)


@attrs.frozen(slots=True, kw_only=True)
class LogSpan:
    """A partition's log. Unknown values are None or empty; `problem` says why start and end are unknown."""

    start: int | None = None
    end: int | None = None
    epoch_end: int | None = None
    """End of the leader epoch of the head's last record in this log; None if unknown."""
    topic_id: str = ""
    problem: str = ""


@attrs.frozen(slots=True, kw_only=True)
class GroupFacts:
    """A group's committed offsets, or the reason why they are unknown."""

    committed: Mapping[TopicPartition, CommittedOffset] = attrs.field(factory=dict)
    problem: str = ""


@attrs.frozen(slots=True, kw_only=True)
class ClusterFacts:
    """Facts about the cluster.

    Commits were read before the links, and logs after them, so members that land meanwhile cause no contradiction.
    """

    groups: Mapping[str, GroupFacts] = attrs.field(factory=dict)
    logs: Mapping[TopicPartition, LogSpan] = attrs.field(factory=dict)


@attrs.frozen(slots=True, kw_only=True)
class Facts:
    """All facts of an audit."""

    table: str
    forgets: bool
    """True if the table may keep only its newest links. Then a chain may start after link 1."""
    chains: tuple[ChainFacts, ...]
    counts: Counts | None = None
    """None if the rows were not counted."""
    uncounted: str = ""
    """Reason why readable rows were not counted; empty if there is none."""
    unreadable: str = ""
    """Error that prevented the rows from being read; empty if there was none."""
    cluster: ClusterFacts | None = None
    """None if the audit compares the table with no cluster."""
    unpublished: tuple[Unpublished, ...] = ()
    """Links and compactions whose files were not all moved to where plain readers find them."""
    leftovers: tuple[Leftover, ...] = ()
    """Files that no link names."""
    unlisted: str = ""
    """Error that prevented the leftovers from being listed; empty if there was none."""
    now: float
    """Seconds since 1970, on the clock of the auditing process."""
