"""Chains of a sink that has run for a long time: some partitions are busy, one is quiet, one is new. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

from sarameya_handlers.landing.links import ChainKey, Link, Origin

ORIGIN = Origin(group="growth", topic_id="0123456789abcdef" * 2)
BUSY = tuple(ChainKey("sarameya", "orders", partition) for partition in range(8))
QUIET = ChainKey("sarameya", "orders", 8)
"""A partition with one link, which landed long ago."""
NEW = ChainKey("sarameya", "orders", 9)
"""A partition of which nothing has landed."""
KEYS = (*BUSY, QUIET, NEW)
ROWS = 100
"""Records of a link."""


def link(key: ChainKey, number: int, attempt: str) -> Link:
    return Link(
        key=key,
        number=number,
        from_offset=(number - 1) * ROWS,
        to_offset=number * ROWS,
        attempt=attempt,
        origin=ORIGIN,
        rows=ROWS,
        size_bytes=20_000,
        leader_epoch=1,
        tried_at=1_790_000_000_000,
    )


def history(count: int, quiet_at: int = 0) -> Iterator[Link]:
    """Yield links in the order in which they landed.

    Args:
        count: Number of links.
        quiet_at: Number of links before the one of the quiet partition.
    """
    attempts = uuid4().int >> 64
    for place in range(count - 1):
        if place == quiet_at:
            yield link(QUIET, 1, uuid4().hex)
        yield link(BUSY[place % len(BUSY)], place // len(BUSY) + 1, UUID(int=attempts << 64 | place).hex)
