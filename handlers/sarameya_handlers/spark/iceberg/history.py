"""What an Iceberg table's snapshots say of its chains. Pure: rows of its `snapshots` in, links out; no Spark.

A link is a snapshot that was written, audited and published (Iceberg's write-audit-publish). It is *staged* first: no
branch leads to it; its summary has the wap id `sarameya/<sink>/<topic>/<partition>/<number>`, and the link. Then it is
*published*, by a cherry-pick into main. Where nothing else was committed meanwhile, main moves on to the staged
snapshot itself; else a new one is made, whose summary repeats the wap id (`published-wap-id`), names the staged one
(`source-snapshot-id`), and has nothing of the link.

Iceberg does not publish a wap id that a snapshot in main's ancestry bears, and looks again each time it tries its
commit anew: that is the compare-and-swap. It rests on the ancestry being there. So an owner publishes link n only while
the chain's newest link there is n - 1, and looks for that after it has staged: whoever stages a link when its number
has been used and forgotten does not find its predecessor. What is left is one that looks, and then sleeps until
the number has been used *and* expired: snapshots expire by age, the staged one is older than what was published after
it, and goes with it or before. (Only where main was moved on to a snapshot that had been staged a moment earlier may
the order be another: an expiry would have to fall between these two, and the sleeper to outlive it.)
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
"""Of a staged snapshot's summary: the link, as JSON. Lower case, as Spark makes of a write option's name."""

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
"""What is asked of a table's `snapshots`, in the order of `Snapshot`'s fields."""

_PREFIX = "sarameya"
_CLOCKS_DIFFER = 120_000
"""Milliseconds. A snapshot's time is that of its writer's clock; for one minute Iceberg itself makes allowance."""


def wap_id(key: ChainKey, number: int) -> str:
    """What nobody may publish twice."""
    return f"{_PREFIX}/{chain_name(key)}/{number}"


def chain_name(key: ChainKey) -> str:
    return f"{quote(key.sink, safe='')}/{quote(key.topic, safe='')}/{key.partition}"


def named_chain(name: str) -> ChainKey:
    """Of whose name that is. Raises ValueError."""
    sink, topic, partition = name.split("/")
    return ChainKey(unquote(sink), unquote(topic), int(partition))


def _told(wap: str | None) -> tuple[ChainKey, int] | None:
    """The link whose wap id that is; None for what others have published."""
    prefix, _, rest = (wap or "").partition("/")
    name, _, number = rest.rpartition("/")
    try:
        return (named_chain(name), int(number)) if prefix == _PREFIX else None
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
    published: str | None = None
    source: int | None = None
    link: str | None = None
    rows: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """From the values of COLUMNS."""
        numbers = (None if value is None else int(value) for value in (row[5], row[7], row[8]))
        source, rows, size = numbers
        return cls(row[0], row[1], row[2], row[3], row[4], source, row[6], rows or 0, size or 0)


@attrs.frozen(slots=True)
class Appended:
    """A link that main's ancestry has. `link` is None where its snapshot is there, and what it said has expired."""

    key: ChainKey
    number: int
    link: Link | None


@attrs.frozen(slots=True)
class History:
    """Snapshots of a table, as many as are known, and the one that main stands at; None for a table that is new."""

    snapshots: Mapping[int, Snapshot] = attrs.field(factory=dict)
    current: int | None = None

    def with_more(self, rows: Iterable[Sequence[Any]], current: int | None) -> History:
        """What is known after some have been looked up anew."""
        more = {snapshot.snapshot_id: snapshot for snapshot in map(Snapshot.of, rows)}
        return History({**self.snapshots, **more}, current)

    def at(self, snapshot_id: int) -> History:
        """As if main stood there."""
        return History(self.snapshots, snapshot_id)

    @property
    def newest(self) -> int:
        """Whatever was committed after this time (milliseconds since 1970) may not be known."""
        return max((one.committed for one in self.snapshots.values()), default=0) - _CLOCKS_DIFFER

    def main(self) -> Iterator[Snapshot]:
        """From the current one back, as far as they are known."""
        at = self.current
        while at is not None and (snapshot := self.snapshots.get(at)) is not None:
            yield snapshot
            at = snapshot.parent_id

    def reaches(self, snapshot_id: int | None) -> bool:
        """Whether main's ancestry is known back to that snapshot, or to the table's first one."""
        return any(snapshot.snapshot_id == snapshot_id or snapshot.parent_id is None for snapshot in self.main())

    @cached_property
    def is_whole(self) -> bool:
        """Whether main's ancestry is known back to the table's first snapshot."""
        oldest = None
        for snapshot in self.main():
            oldest = snapshot
        return oldest.parent_id is None if oldest else self.current is None

    def keys(self) -> set[ChainKey]:
        """The chains that have a link in main's ancestry."""
        return {told[0] for one in self.main() if (told := _told(one.staged or one.published))}

    def appended(self, keys: Collection[ChainKey]) -> Iterator[Appended]:
        """All links of these chains in main's ancestry, the newest first. Raises BrokenChainError."""
        for snapshot in self.main():
            if (told := _told(snapshot.staged or snapshot.published)) is not None:
                if told[0] in keys:
                    yield self._appended(snapshot, *told)
            elif snapshot.link is not None and (link := Link.from_json(snapshot.link)).key in keys:
                raise BrokenChainError(
                    f"{link} was appended by snapshot {snapshot.snapshot_id} without being audited: somebody has set "
                    "write.wap.enabled to false"
                )

    def newest_of(self, keys: Iterable[ChainKey]) -> dict[ChainKey, Appended]:
        """Each of these chains' newest link, of those that have one in main's ancestry. Raises BrokenChainError."""
        wanted, found = set(keys), dict[ChainKey, Appended]()
        for appended in self.appended(wanted) if wanted else ():
            wanted.remove(appended.key)
            found[appended.key] = appended
            if not wanted:
                break
        return found

    def links(self, key: ChainKey, since: int) -> list[Link]:
        """This chain's links from number `since` on, in order, as far back as all is known of each."""
        found: list[Link] = []
        for appended in self.appended({key}):
            if appended.number < since or appended.link is None:
                break
            found.append(appended.link)
        return found[::-1]

    def all_links(self, keys: Iterable[ChainKey]) -> dict[ChainKey, list[Link]]:
        """The same of all these chains, from number 1 on."""
        found: dict[ChainKey, list[Link]] = {key: [] for key in keys}
        ended: set[ChainKey] = set()
        for appended in self.appended(found):
            if appended.link is None:
                ended.add(appended.key)
            elif appended.key not in ended:
                found[appended.key].append(appended.link)
        return {key: links[::-1] for key, links in found.items()}

    def staged(self, link: Link) -> Snapshot | None:
        """The snapshot that was staged for this very try."""
        wap = wap_id(link.key, link.number)
        of_number = (one for one in self.snapshots.values() if one.staged == wap and one.link)
        return next((one for one in of_number if Link.from_json(one.link or "").attempt == link.attempt), None)

    def unpublished(self) -> list[tuple[Snapshot, ChainKey, int]]:
        """What was staged, is not in main's ancestry, and is not what something there was made of."""
        told = {one.snapshot_id: told for one in self.snapshots.values() if (told := _told(one.staged))}
        used = {one.snapshot_id for one in self.main()} | {one.source for one in self.snapshots.values()}
        return [(self.snapshots[staged], *told[staged]) for staged in told if staged not in used]

    def _appended(self, snapshot: Snapshot, key: ChainKey, number: int) -> Appended:
        text = snapshot.link
        if text is None and snapshot.source is not None and (source := self.snapshots.get(snapshot.source)):
            text = source.link
        if text is None:
            return Appended(key, number, None)
        link = Link.from_json(text)
        if (link.key, link.number) != (key, number):
            raise BrokenChainError(
                f"snapshot {snapshot.snapshot_id} was published as link {number} of {key}, and says that it is {link}"
            )
        has_rows = link.kind is Kind.RECORDS
        return Appended(
            key, number, attrs.evolve(link, rows=snapshot.rows if has_rows else 0, size_bytes=snapshot.size_bytes)
        )
