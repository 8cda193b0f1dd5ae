"""Rows of an Iceberg table's `snapshots` as Spark returns them, made as Iceberg makes them."""

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
    """An Iceberg table's metadata: `rows` in the order of their commits, with `current` where main stands."""

    rows: dict[int, tuple[Any, ...]] = attrs.field(factory=dict)
    current: int | None = None
    now: int = 1_800_000_000_000
    _made: int = 100

    def commit(self, *, rows: int = 0) -> int:
        """Somebody's own append, or compaction."""
        return self._publish(self._add(self.current, rows=rows))

    def stage(self, link: Link, *, wap: str | None = None, rows: int = 10) -> int:
        text = wap or wap_id(link.key, link.number)
        return self._add(self.current, wap=text, link=link.to_json(), rows=rows)

    def pick(self, staged: int) -> int:
        """Main moves on to it, or a copy is made."""
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
        self._made = number = self._made + 1
        # What is nothing is not in the summary, and what is in it is text.
        told = None if source is None else str(source)
        counts = (str(rows), str(rows * 100)) if rows else (None, None)
        self.rows[number] = (number, parent, self.now, wap, published, told, link, *counts)
        return number
