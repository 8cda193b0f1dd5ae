"""Fake metadata of an Iceberg table: the rows of its `snapshots` metadata table, as Spark returns them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import attrs

from sarameya_handlers.landing.links import ChainKey, Kind, Link, Origin
from sarameya_handlers.spark.iceberg.history import History, wap_id

KEY = ChainKey("sink", "orders", 0)
OTHER = ChainKey("a/b é", "or.ders", 12)


def link(number: int, *, key: ChainKey = KEY, size: int = 10, kind: Kind = Kind.RECORDS) -> Link:
    at = (number - 1) * size
    end = at if kind is Kind.RESTATED else at + size
    return Link(
        key=key,
        number=number,
        from_offset=at,
        to_offset=end,
        attempt=uuid4().hex,
        origin=Origin(group="g"),
        kind=kind,
        reason="on purpose" if kind is Kind.GAP else "",
    )


@attrs.define(slots=True)
class FakeMetadata:
    """An Iceberg table's metadata: snapshot id -> row, in commit order. `current` is the snapshot of branch main."""

    rows: dict[int, tuple[Any, ...]] = attrs.field(factory=dict)
    current: int | None = None
    now: int = 1_800_000_000_000
    _last_id: int = 100

    def commit(self, *, rows: int = 0) -> int:
        """Add a snapshot of another writer, such as an append or a compaction."""
        return self._publish(self._add(self.current, rows=rows))

    def stage(self, link: Link, *, wap: str | None = None, rows: int = 10) -> int:
        """Add a staged snapshot of a link (write-audit-publish)."""
        text = wap or wap_id(link.key, link.number)
        return self._add(self.current, wap=text, link=link.to_json(), rows=rows)

    def pick(self, staged: int) -> int:
        """Publish a staged snapshot: fast-forward main to it if main is its parent, else cherry-pick a copy."""
        row = self.rows[staged]
        if row[1] == self.current:
            return self._publish(staged)
        return self._publish(self._add(self.current, published=row[3], source=staged, rows=int(row[7] or 0)))

    def land(self, link: Link, *, rows: int = 10) -> int:
        return self.pick(self.stage(link, rows=rows))

    def expire(self, snapshots: Iterable[int]) -> None:
        for snapshot in snapshots:
            del self.rows[snapshot]

    def history(self) -> History:
        return History().with_more(self.rows.values(), self.current)

    def _publish(self, snapshot: int) -> int:
        self.current = snapshot
        return snapshot

    def _add(
        self,
        parent: int | None,
        *,
        wap: str | None = None,
        published: str | None = None,
        source: int | None = None,
        link: str | None = None,
        rows: int = 0,
    ) -> int:
        self.now += 1000
        self._last_id = number = self._last_id + 1
        # All values of a snapshot's summary are text. Zero counts are left out.
        source_id = None if source is None else str(source)
        counts = (str(rows), str(rows * 100)) if rows else (None, None)
        self.rows[number] = (number, parent, self.now, wap, published, source_id, link, *counts)
        return number
