"""Links in the snapshots of an Iceberg table. Pure: converts rows of the table's `snapshots` to links; no Spark.

A link is a snapshot that was written, audited and published (Iceberg's write-audit-publish). First the snapshot is
*staged*: no branch leads to it, and its summary has the wap id `sarameya/<sink>/<topic>/<partition>/<number>` and the
link. Then it is *published* by a cherry-pick into main. If nothing else was committed meanwhile, main moves to the
staged snapshot itself. Otherwise Iceberg makes a new snapshot, whose summary repeats the wap id (`published-wap-id`),
names the staged snapshot (`source-snapshot-id`), and lacks the link.

The compare-and-swap: Iceberg refuses to publish a wap id that a snapshot in main's ancestry already has, and checks
again on each retry of the commit. This works only while the ancestry has that snapshot. So an owner publishes link n
only if the chain's newest link in the ancestry is n - 1, and checks this after it has staged: if number n was used and
its snapshot has expired, the newest link is not n - 1. One case is left: an owner checks, and then sleeps until another
owner's link n was published *and* has expired. Snapshots expire by age, and the sleeper's staged snapshot is older than
the one published after it, so it expires no later. (The order differs only if main moved to a snapshot that another
owner had staged a moment earlier: an expiry would have to fall between the two, and the sleeper to wake after it.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self
from urllib.parse import quote, unquote

import attrs

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import ChainKey, Kind, Link

LINK_PROPERTY = "sarameya.link"
"""Property of a staged snapshot's summary: the link as JSON. Lower case, since Spark lowers the names of options."""

COLUMNS = (
    "snapshot_id",
    "parent_id",
    "unix_millis(committed_at)",
    "summary['wap.id']",
    "summary['published-wap-id']",
    "summary['source-snapshot-id']",
    f"summary['{LINK_PROPERTY}']",
    "summary['added-records']",
    "summary['added-files-size']",
)
"""Columns read from a table's `snapshots`, in the order of `Snapshot`'s fields."""

_PREFIX = "sarameya"
_MAX_CLOCK_SKEW = 120_000
"""Milliseconds. A snapshot's time is from its writer's clock; Iceberg itself tolerates one minute."""


def wap_id(key: ChainKey, number: int) -> str:
    """Return the wap id of a link, which can be published only once."""
    return f"{_PREFIX}/{chain_name(key)}/{number}"


def chain_name(key: ChainKey) -> str:
    """Return the name of a chain in snapshot properties."""
    return f"{quote(key.sink, safe='')}/{quote(key.topic, safe='')}/{key.partition}"


def parse_chain_name(name: str) -> ChainKey:
    """Return the chain with this name. Raises ValueError."""
    sink, topic, partition = name.split("/")
    return ChainKey(unquote(sink), unquote(topic), int(partition))


def _parse_wap_id(wap: str | None) -> tuple[ChainKey, int] | None:
    """Return the chain and the link's number of a wap id; None if it is not ours."""
    prefix, _, rest = (wap or "").partition("/")
    name, _, number = rest.rpartition("/")
    try:
        return (parse_chain_name(name), int(number)) if prefix == _PREFIX else None
    except ValueError:
        return None


@attrs.frozen(slots=True)
class Snapshot:
    """A row of a table's `snapshots`."""

    snapshot_id: int
    parent_id: int | None
    committed: int
    """Milliseconds since 1970, by its writer's clock."""
    staged: str | None = None
    """Wap id, if this snapshot was staged."""
    published: str | None = None
    """Wap id, if this snapshot was made by publishing another one."""
    source: int | None = None
    """Id of that other snapshot."""
    link: str | None = None
    """The link as JSON."""
    rows: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Build a snapshot from the values of COLUMNS."""
        numbers = (None if value is None else int(value) for value in (row[5], row[7], row[8]))
        source, rows, size = numbers
        return cls(row[0], row[1], row[2], row[3], row[4], source, row[6], rows or 0, size or 0)


@attrs.frozen(slots=True)
class AppendedLink:
    """A link in main's ancestry; `link` is None if the staged snapshot, which described it, has expired."""

    key: ChainKey
    number: int
    link: Link | None


@attrs.frozen(slots=True)
class History:
    """The known snapshots of a table."""

    snapshots: Mapping[int, Snapshot] = attrs.field(factory=dict)
    current: int | None = None
    """Id of main's snapshot; None for a new table."""

    def with_more(self, rows: Iterable[Sequence[Any]], current: int | None) -> History:
        """Return the history with newly read snapshots added."""
        more = {snapshot.snapshot_id: snapshot for snapshot in map(Snapshot.of, rows)}
        return History({**self.snapshots, **more}, current)

    def at(self, snapshot_id: int) -> History:
        """Return the history with this snapshot as main's."""
        return History(self.snapshots, snapshot_id)

    @property
    def newest(self) -> int:
        """Time in milliseconds since 1970. Snapshots committed later may be missing."""
        committed = (snapshot.committed for snapshot in self.snapshots.values())
        return max(committed, default=0) - _MAX_CLOCK_SKEW

    def main(self) -> Iterator[Snapshot]:
        """Yield main's ancestry from the current snapshot backwards, as far as it is known."""
        snapshot_id = self.current
        while snapshot_id is not None and (snapshot := self.snapshots.get(snapshot_id)) is not None:
            yield snapshot
            snapshot_id = snapshot.parent_id

    def reaches(self, snapshot_id: int | None) -> bool:
        """Return whether main's ancestry is known back to that snapshot, or to the table's first one."""
        return any(snapshot.snapshot_id == snapshot_id or snapshot.parent_id is None for snapshot in self.main())

    @cached_property
    def is_whole(self) -> bool:
        """True if main's ancestry is known back to the table's first snapshot."""
        oldest = None
        for snapshot in self.main():
            oldest = snapshot
        return oldest.parent_id is None if oldest else self.current is None

    def keys(self) -> set[ChainKey]:
        """Return the chains with a link in main's ancestry."""
        wap_ids = (snapshot.staged or snapshot.published for snapshot in self.main())
        return {parsed[0] for wap in wap_ids if (parsed := _parse_wap_id(wap))}

    def appended(self, keys: Collection[ChainKey]) -> Iterator[AppendedLink]:
        """Yield the links of these chains in main's ancestry, newest first. Raises BrokenChainError."""
        for snapshot in self.main():
            if (parsed := _parse_wap_id(snapshot.staged or snapshot.published)) is not None:
                if parsed[0] in keys:
                    yield self._appended(snapshot, *parsed)
            elif snapshot.link is not None and (link := Link.from_json(snapshot.link)).key in keys:
                raise BrokenChainError(
                    f"{link} was appended by snapshot {snapshot.snapshot_id} without an audit: another program has set "
                    "write.wap.enabled to false. Set it to true, roll the table back to before that snapshot, and "
                    "rewind the group (`sarameya rewind`)."
                )

    def newest_of(self, keys: Iterable[ChainKey]) -> dict[ChainKey, AppendedLink]:
        """Return the newest link of each chain that has one in main's ancestry. Raises BrokenChainError."""
        wanted, found = set(keys), dict[ChainKey, AppendedLink]()
        for appended in self.appended(wanted) if wanted else ():
            wanted.remove(appended.key)
            found[appended.key] = appended
            if not wanted:
                break
        return found

    def links(self, key: ChainKey, since: int) -> list[Link]:
        """Return a chain's links from number `since` on, in order, after the last one whose description has expired."""
        found: list[Link] = []
        for appended in self.appended({key}):
            if appended.number < since or appended.link is None:
                break
            found.append(appended.link)
        return found[::-1]

    def all_links(self, keys: Iterable[ChainKey]) -> dict[ChainKey, list[Link]]:
        """Return the links of each of these chains from number 1 on, as `links` does."""
        found: dict[ChainKey, list[Link]] = {key: [] for key in keys}
        ended: set[ChainKey] = set()
        for appended in self.appended(found):
            if appended.link is None:
                ended.add(appended.key)
            elif appended.key not in ended:
                found[appended.key].append(appended.link)
        return {key: links[::-1] for key, links in found.items()}

    def staged(self, link: Link) -> Snapshot | None:
        """Return the snapshot that was staged for exactly this attempt."""
        wap = wap_id(link.key, link.number)
        for snapshot in self.snapshots.values():
            if snapshot.staged == wap and snapshot.link and Link.from_json(snapshot.link).attempt == link.attempt:
                return snapshot
        return None

    def unpublished(self) -> list[tuple[Snapshot, ChainKey, int]]:
        """Return staged snapshots that are neither in main's ancestry nor the source of a snapshot there."""
        snapshots = self.snapshots.values()
        used = {snapshot.snapshot_id for snapshot in self.main()} | {snapshot.source for snapshot in snapshots}
        return [
            (snapshot, *parsed)
            for snapshot in snapshots
            if (parsed := _parse_wap_id(snapshot.staged)) and snapshot.snapshot_id not in used
        ]

    def _appended(self, snapshot: Snapshot, key: ChainKey, number: int) -> AppendedLink:
        text = snapshot.link
        if text is None and snapshot.source is not None and (source := self.snapshots.get(snapshot.source)):
            text = source.link
        if text is None:
            return AppendedLink(key, number, None)
        link = Link.from_json(text)
        if (link.key, link.number) != (key, number):
            raise BrokenChainError(
                f"snapshot {snapshot.snapshot_id} was published as link {number} of {key}, but its summary has {link}"
            )
        has_rows = link.kind is Kind.RECORDS
        return AppendedLink(
            key, number, attrs.evolve(link, rows=snapshot.rows if has_rows else 0, size_bytes=snapshot.size_bytes)
        )
