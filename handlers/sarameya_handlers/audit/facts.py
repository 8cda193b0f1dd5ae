"""What an audit has gathered, of a table and of the cluster that it was landed from. Pure; judged in `verdict.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from sarameya import CommittedOffset, TopicPartition
from sarameya_handlers.landing.data_files import Unpublished
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.table import Leftover


@attrs.frozen(slots=True, kw_only=True)
class ChainFacts:
    """One chain, as the table tells it."""

    key: ChainKey
    head: Link | None
    """What the table takes for its last link, before its links were read; None where it knows of none."""
    links: tuple[Link, ...] = ()
    """All that it remembers, in order, before rows were counted."""
    later: tuple[Link, ...] = ()
    """Those that were appended while rows were counted."""
    problem: str = ""
    """Why its links could not be read, or not to their end."""

    @property
    def last(self) -> Link | None:
        """The last that is known, of all."""
        known = (*self.links, *self.later)
        return known[-1] if known else self.head


@attrs.frozen(slots=True, order=True)
class Span:
    """A run of offsets `[start, stop)` whose rows are counted together."""

    topic: str
    partition: int
    start: int
    stop: int
    sink: str
    number: int
    """The link's, or one of FORGOTTEN, BEYOND."""


FORGOTTEN = 0
"""In place of a link's number: what lies before the oldest link that the table remembers."""
BEYOND = -1
"""In place of a link's number: what lies behind the last link."""


@attrs.frozen(slots=True)
class Count:
    """How many rows there are, and how they spread: over so many different offsets, from `first` to `last`."""

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
    """Rows in no span. `topic` or `partition` is None where the rows say none; then so are the offsets."""

    topic: str | None
    partition: int | None
    rows: int
    first: int | None
    last: int | None


@attrs.frozen(slots=True)
class Counts:
    """Rows of a table, by span. A span without any row has no count."""

    spans: Mapping[Span, Count]
    strays: Sequence[Stray] = ()

    @property
    def rows(self) -> int:
        """Of the whole table."""
        return sum(count.rows for count in self.spans.values()) + sum(stray.rows for stray in self.strays)


@attrs.frozen(slots=True, kw_only=True)
class LogFacts:
    """A partition's log. None and empty for what could not be told; `problem` says why of its start and end."""

    start: int | None = None
    end: int | None = None
    epoch_end: int | None = None
    """Where the leader epoch of the head's last record ends in it; None where that is not known."""
    topic_id: str = ""
    problem: str = ""


@attrs.frozen(slots=True, kw_only=True)
class GroupFacts:
    """What a group has committed, or why that is not known."""

    committed: Mapping[TopicPartition, CommittedOffset] = attrs.field(factory=dict)
    problem: str = ""


@attrs.frozen(slots=True, kw_only=True)
class ClusterFacts:
    """What the cluster says: commits from before the links were read, logs from after that, so that members that land
    meanwhile are no contradiction."""

    groups: Mapping[str, GroupFacts] = attrs.field(factory=dict)
    logs: Mapping[TopicPartition, LogFacts] = attrs.field(factory=dict)


@attrs.frozen(slots=True, kw_only=True)
class Facts:
    """All of it."""

    table: str
    forgets: bool
    """Whether the table may have forgotten its oldest links."""
    chains: tuple[ChainFacts, ...]
    counts: Counts | None = None
    """None where rows were not counted; then `uncounted` says why, or `unreadable` what went wrong."""
    uncounted: str = ""
    unreadable: str = ""
    cluster: ClusterFacts | None = None
    """None where no cluster was asked."""
    unpublished: tuple[Unpublished, ...] = ()
    """Rows that plain readers of the table miss until somebody publishes them."""
    leftovers: tuple[Leftover, ...] = ()
    unlisted: str = ""
    """Why leftovers could not be listed."""
    now: float
    """Seconds since 1970, by the clock of whoever asks."""
