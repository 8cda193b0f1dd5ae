"""Recent events of a member for the status page: an observer that keeps the last ones of each kind."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from sarameya.observe import Event, HandlerOverdue, Landed, LandingFailed, MembershipChanged, Retrying, event_level
from sarameya.secret import masked_text
from sarameya.service.output.error_report import leaves

KEPT = 100
"""Events that are kept, and as many batches besides, since those are many."""


_LONGEST = 2000
"""Characters of a text. Stacks and Spark's causes have more, and all of it goes to every page each second."""
_LONGEST_STACK = 4000
"""Characters of a stack. Its end says the most."""
_DEEPEST, _WIDEST, _MOST = 8, 16, 50
"""Limits of an error tree: levels below the top, errors that one consists of, and errors in all."""


@attrs.frozen(slots=True, kw_only=True)
class ErrorTree:
    """An error and its parts: members of an exception group, or a cause."""

    text: str
    inner: tuple[ErrorTree, ...] = ()


@attrs.frozen(slots=True, kw_only=True)
class RecentBatch:
    """A batch that was written to a table, or should have been. Unknown numbers are -1."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    rows: int = -1
    size_bytes: int = -1
    seconds: float = -1.0


@attrs.frozen(slots=True, kw_only=True)
class RecentEvent:
    """A line of the page's list of events."""

    number: int
    """The order in which events happened."""
    at: float
    """Seconds since 1970."""
    kind: str
    """The event's class, or `Failure`."""
    level: str
    text: str
    tree: ErrorTree | None = None
    landing: RecentBatch | None = None
    stack: str = ""
    """The stack of an overdue handler."""
    series: str = ""
    """An id that all attempts of one request share: only the last attempt is kept."""


class EventHistory:
    """The last events, and the last batches: these are many, and must not displace events."""

    def __init__(self) -> None:
        self._events: deque[RecentEvent] = deque(maxlen=KEPT)
        self._landings: deque[RecentEvent] = deque(maxlen=KEPT)

    def add(self, one: RecentEvent) -> None:
        """Add the newest event.

        A missing broker is tried twice a second: without `series` its attempts would displace all earlier events.
        """
        kept = self._events if one.landing is None else self._landings
        if one.series and (before := next((old for old in kept if old.series == one.series), None)) is not None:
            kept.remove(before)
        kept.append(one)

    def __iter__(self) -> Iterator[RecentEvent]:
        yield from self._events
        yield from self._landings


class EventRecorder:
    """An observer that keeps the last events and batches of a member."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._kept = EventHistory()
        self._number = 0
        self._series: dict[str, str] = {}
        """The series of each request that is retried."""

    def __call__(self, event: Event) -> None:
        match event:
            case Landed():
                facts = attrs.evolve(_facts(event), rows=event.rows, size_bytes=event.size_bytes, seconds=event.seconds)
                self._kept.add(self._happening("Landed", "info", "", landing=facts))
            case LandingFailed(cause=cause):
                self._kept.add(self._happening("LandingFailed", "warning", cause, landing=_facts(event)))
            case MembershipChanged(before=before, after=after, cause=cause):
                states = f"{before} to {after}".lower().replace("_", " ")
                self._kept.add(self._happening("MembershipChanged", "info", f"membership: {states}: {cause}"))
            case HandlerOverdue():
                stack = masked_text(event.stack)[-_LONGEST_STACK:]
                self._kept.add(self._happening("HandlerOverdue", "warning", event.headline, stack=stack))
            case _ if event_level(event) >= logging.INFO:
                level = logging.getLevelName(event_level(event)).lower()
                self._kept.add(self._happening(type(event).__name__, level, str(event), series=self._series_of(event)))

    def failed(self, error: BaseException) -> None:
        """Record that the member has failed."""
        error = unwrap_error(error)
        self._kept.add(self._happening("Failure", "error", error_line(error), tree=tree_of(error)))

    def __iter__(self) -> Iterator[RecentEvent]:
        return iter(sorted(self._kept, key=lambda one: one.number))

    def _series_of(self, event: Event) -> str:
        if not isinstance(event, Retrying):
            return ""
        if event.attempt <= 1 or event.what not in self._series:
            # By its time, too: a worker that begins anew numbers from 1 again.
            self._series[event.what] = f"{self._number}/{self._wall_clock()}"
        return self._series[event.what]

    def _happening(self, kind: str, level: str, text: str, **more: Any) -> RecentEvent:
        self._number += 1
        at, text = self._wall_clock(), _shown(text)  # a landing's cause is in others' words
        return RecentEvent(number=self._number, at=at, kind=kind, level=level, text=text, **more)


def _facts(event: Landed | LandingFailed) -> RecentBatch:
    return RecentBatch(
        topic=event.partition.topic,
        partition=event.partition.partition,
        from_offset=event.from_offset,
        to_offset=event.to_offset,
    )


def unwrap_error(error: BaseException) -> BaseException:
    """Return the error in groups of one: a nursery's wrapping says nothing about it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def tree_of(error: BaseException) -> ErrorTree:
    """Return the tree of an error: group members and causes. Notes stay with the text.

    Errors near the top come first, no deeper than `_DEEPEST` (causes may be circular), and no more than `_MOST`. The
    number of those left out is the last part.
    """
    top = _Node(error, 0)
    shown = [top]
    for node in shown:  # which grows meanwhile
        inner = _inner(node.error)[:_WIDEST] if node.depth < _DEEPEST else []
        node.inner = [_Node(one, node.depth + 1) for one in inner[: _MOST - len(shown)]]
        shown += node.inner
    more = len(_all_of(error) - {id(node.error) for node in shown})
    tree = top.tree()
    return attrs.evolve(tree, inner=(*tree.inner, ErrorTree(text=f"and {more} more"))) if more else tree


@attrs.define(slots=True)
class _Node:
    """A shown error, and the shown errors below it."""

    error: BaseException
    depth: int
    inner: list[_Node] = attrs.field(factory=list)

    def tree(self) -> ErrorTree:
        return ErrorTree(text=_told_of(self.error), inner=tuple(node.tree() for node in self.inner))


def _inner(error: BaseException) -> list[BaseException]:
    """Return the parts of an error."""
    members = [*error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    return [unwrap_error(one) for one in (*members, error.__cause__) if one is not None]


def _all_of(error: BaseException) -> set[int]:
    """Return the ids of an error and of all its parts."""
    found, left = {id(error)}, [error]
    while left:
        new = [one for one in _inner(left.pop()) if id(one) not in found]
        found.update(map(id, new))
        left += new
    return found


def _told_of(error: BaseException) -> str:
    return _shown("; ".join([error_line(error), *map(str, getattr(error, "__notes__", ()))]))


def error_summary(error: BaseException) -> str:
    """Return the first error in one line, and the number of others."""
    first, *others = leaves(error)
    return f"{error_line(first)} (and {len(others)} more)" if others else error_line(first)


def _shown(text: str) -> str:
    """Return the text with secrets masked, cut to a length that somebody reads."""
    masked = masked_text(text)
    return masked if len(masked) <= _LONGEST else f"{masked[:_LONGEST]} …"


def error_line(error: BaseException) -> str:
    """Return the error's class and the first line of its text, with secrets masked."""
    try:
        text = _shown(str(error).strip().partition("\n")[0])
    except Exception:  # noqa: BLE001 - pyspark's ask a JVM for their text, which may be gone
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
