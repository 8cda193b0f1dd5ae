"""Wall time for virtual time: record timestamps that move with trio's clock, alike in every run."""

from __future__ import annotations

import trio

VIRTUAL_EPOCH = 1_700_000_000.0
"""What a mock clock's zero is called: 2023-11-14 22:13:20 UTC, in seconds since 1970."""


def virtual_wall_clock() -> float:
    """The time of day in seconds since 1970, as far as trio's (mock) clock has moved since its zero."""
    return VIRTUAL_EPOCH + trio.current_time()
