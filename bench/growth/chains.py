"""Chains as an old sink leaves them: some partitions are busy, one is quiet, one is new. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid4

from sarameya_handlers.landing.links import ChainKey, Link, Origin

ORIGIN = Origin(group="growth", topic_id="0123456789abcdef" * 2)
BUSY = tuple(ChainKey("sarameya", "orders", partition) for partition in range(8))
QUIET = ChainKey("sarameya", "orders", 8)
"""It has one link, long ago."""
NEW = ChainKey("sarameya", "orders", 9)
"""Nothing has landed of it."""
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
    """Return so many links in the order in which they landed, with the quiet one's behind so many others."""
    attempts = uuid4().int >> 64
    for at in range(count - 1):
        if at == quiet_at:
            yield link(QUIET, 1, uuid4().hex)
        yield link(BUSY[at % len(BUSY)], at // len(BUSY) + 1, UUID(int=attempts << 64 | at).hex)
