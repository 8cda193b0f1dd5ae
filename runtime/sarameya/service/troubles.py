"""What keeps a service from being ready or alive, told to the log, whoever serves or asks for `/readyz`: once when it
comes, and once when it is over. Who reads nothing but the log is to know of a partition that stands.

`Troubles` decides, and is pure; `watch_troubles` looks, beside the watchdog, which ends what cannot be helped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import trio

from sarameya.service.signals import Stop
from sarameya.service.web.health import Trouble, health
from sarameya.service.web.members import Members
from sarameya.service.web.progress import ProgressTracker

logger = logging.getLogger("sarameya")

INTERVAL = 5.0
"""Seconds from one look to the next: what is told of has stood for longer."""
CALM = 30.0
"""Seconds that a trouble must be away until it is over: one that comes and goes is told once."""
MOST = 10
"""Lines a look of what comes, and of what is over: a broker that is frozen may hold up a thousand partitions."""

_Key = tuple[str, int, str]


@attrs.frozen(slots=True)
class News:
    """A trouble that has come, or is over after so many seconds."""

    trouble: Trouble
    is_over: bool
    seconds: float


@attrs.define(slots=True)
class _Standing:
    trouble: Trouble
    since: float
    seen: float
    is_told: bool = False


class Troubles:
    """Remembers what has been told. What is usual for a while is told when it has stood for `patience` seconds."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._standing: dict[_Key, _Standing] = {}

    def see(self, troubles: Iterable[Trouble], now: float) -> list[News]:
        """What is to be told, now that there are these."""
        for trouble in troubles:
            key = (trouble.kind, trouble.worker, trouble.about)
            found = self._standing.setdefault(key, _Standing(trouble, now, now))
            found.trouble, found.seen = trouble, now
        return [*self._over(now), *self._new(now)]

    def _over(self, now: float) -> Iterator[News]:
        for key, one in [*self._standing.items()]:
            if one.seen < now and not (one.is_told and now - one.seen < CALM):
                del self._standing[key]
                if one.is_told:
                    yield News(one.trouble, True, one.seen - one.since)

    def _new(self, now: float) -> Iterator[News]:
        for one in self._standing.values():
            stands = now - one.since
            if not one.is_told and stands >= (self._patience if one.trouble.is_usual else 0.0):
                one.is_told = True
                yield News(one.trouble, False, stands)


async def watch_troubles(members: Members, stop: Stop, stall_after: float) -> None:
    """Look each while, until the service stops: what is not ready then is a matter of course."""
    progress, troubles = ProgressTracker(), Troubles(stall_after)
    is_broken = False
    while not stop.asked:
        try:
            now, heard = trio.current_time(), members.heard()
            progress.see([one.snapshot for one in heard if one.snapshot is not None], now)
            tell_troubles(troubles.see(health(heard, progress, now, stall_after=stall_after).troubles, now))
        except Exception:
            if not is_broken:  # who watches may not end what is watched
                logger.exception("whether the service gets on cannot be told")
            is_broken = True
        with trio.move_on_after(INTERVAL):
            await stop.wait()


def tell_troubles(news: Iterable[News]) -> None:
    """To the log: a warning each that has come, and a line each that is over, but no more than `MOST`."""
    comes, over = list[News](), list[News]()
    for one in news:
        (over if one.is_over else comes).append(one)
    for told, level in ((over, logging.INFO), (comes, logging.WARNING)):
        for one in told[:MOST]:
            logger.log(level, "%s", _words(one), extra={"fields": _fields(one)})
        if len(told) > MOST:
            logger.log(level, "and %d more like these; /readyz has them all", len(told) - MOST)


def _words(news: News) -> str:
    trouble = news.trouble
    return f"over after {news.seconds:.0f} s: {trouble.about}" if news.is_over else f"{trouble.kind}: {trouble.line}"


def _fields(news: News) -> dict[str, Any]:
    trouble = news.trouble
    fields: dict[str, Any] = {"worker": trouble.worker, "reason": trouble.about}
    if trouble.partition is not None:
        fields["partition"] = trouble.partition
    return fields | {"seconds": news.seconds} if news.is_over else fields
