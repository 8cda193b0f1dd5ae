"""Recent events of a member for the status page: an observer that keeps the last events and the last batches."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from sarameya.errors import unwrap_error
from sarameya.observe import Event, HandlerOverdue, Landed, LandingFailed, MembershipChanged, Retrying, event_level
from sarameya.secret import masked_text
from sarameya.service.output.error_report import leaves

KEPT = 100
"""The number of events that are kept. The same number of batches is kept apart, since batches are frequent."""

_MAX_TEXT = 2000
"""Characters of a text. Stacks and Spark's causes have more, and every open page gets all texts."""
_MAX_STACK = 4000
"""Characters of a stack. Its end is kept, where the handler is now."""
_MAX_DEPTH, _MAX_WIDTH, _MAX_ERRORS = 8, 16, 50
"""Limits of an error tree: levels below the top, parts of each error, and errors in total."""


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
    """The last events, and the last batches, which are frequent and must not displace events."""

    def __init__(self) -> None:
        self._events: deque[RecentEvent] = deque(maxlen=KEPT)
        self._landings: deque[RecentEvent] = deque(maxlen=KEPT)

    def add(self, event: RecentEvent) -> None:
        """Add the newest event.

        A connection is retried twice a second: without `series` its attempts would displace all earlier events.
        """
        kept = self._events if event.landing is None else self._landings
        if event.series and (before := next((old for old in kept if old.series == event.series), None)) is not None:
            kept.remove(before)
        kept.append(event)

    def __iter__(self) -> Iterator[RecentEvent]:
        yield from self._events
        yield from self._landings


class EventRecorder:
    """An observer that keeps the last events and batches of a member."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._history = EventHistory()
        self._number = 0
        self._series: dict[str, str] = {}
        """The series of each request that is retried."""

    def __call__(self, event: Event) -> None:
        match event:
            case Landed():
                facts = attrs.evolve(_facts(event), rows=event.rows, size_bytes=event.size_bytes, seconds=event.seconds)
                self._history.add(self._make("Landed", "info", "", landing=facts))
            case LandingFailed(cause=cause):
                self._history.add(self._make("LandingFailed", "warning", cause, landing=_facts(event)))
            case MembershipChanged(before=before, after=after, cause=cause):
                states = f"{before} to {after}".lower().replace("_", " ")
                self._history.add(self._make("MembershipChanged", "info", f"membership: {states}: {cause}"))
            case HandlerOverdue():
                stack = masked_text(event.stack)[-_MAX_STACK:]
                self._history.add(self._make("HandlerOverdue", "warning", event.headline, stack=stack))
            case _ if event_level(event) >= logging.INFO:
                level = logging.getLevelName(event_level(event)).lower()
                self._history.add(self._make(type(event).__name__, level, str(event), series=self._series_of(event)))

    def record_failure(self, error: BaseException) -> None:
        """Record that the member has failed."""
        error = unwrap_error(error)
        self._history.add(self._make("Failure", "error", error_line(error), tree=tree_of(error)))

    def __iter__(self) -> Iterator[RecentEvent]:
        return iter(sorted(self._history, key=lambda event: event.number))

    def _series_of(self, event: Event) -> str:
        if not isinstance(event, Retrying):
            return ""
        if event.attempt <= 1 or event.what not in self._series:
            # The id has the time, too: a restarted worker numbers its events from 1 again.
            self._series[event.what] = f"{self._number}/{self._wall_clock()}"
        return self._series[event.what]

    def _make(self, kind: str, level: str, text: str, **more: Any) -> RecentEvent:
        self._number += 1
        at, text = self._wall_clock(), _masked_and_cut(text)  # a cause may be the text of any library
        return RecentEvent(number=self._number, at=at, kind=kind, level=level, text=text, **more)


def _facts(event: Landed | LandingFailed) -> RecentBatch:
    return RecentBatch(
        topic=event.partition.topic,
        partition=event.partition.partition,
        from_offset=event.from_offset,
        to_offset=event.to_offset,
    )


def tree_of(error: BaseException) -> ErrorTree:
    """Return the tree of an error: group members and causes. Notes stay with the text.

    Errors near the top are preferred. The tree is at most `_MAX_DEPTH` deep (causes may be circular), and has at most
    `_MAX_ERRORS` errors. Its last part has the number of the errors that are left out.
    """
    top = _Node(error, 0)
    shown = [top]
    for node in shown:  # the list grows in the loop
        inner = _inner(node.error)[:_MAX_WIDTH] if node.depth < _MAX_DEPTH else []
        node.inner = [_Node(part, node.depth + 1) for part in inner[: _MAX_ERRORS - len(shown)]]
        shown += node.inner
    more = len(_ids_in(error) - {id(node.error) for node in shown})
    tree = top.tree()
    return attrs.evolve(tree, inner=(*tree.inner, ErrorTree(text=f"and {more} more"))) if more else tree


@attrs.define(slots=True)
class _Node:
    """A shown error, and the shown errors below it."""

    error: BaseException
    depth: int
    inner: list[_Node] = attrs.field(factory=list)

    def tree(self) -> ErrorTree:
        return ErrorTree(text=_text_of(self.error), inner=tuple(node.tree() for node in self.inner))


def _inner(error: BaseException) -> list[BaseException]:
    """Return the parts of an error."""
    members = [*error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    return [unwrap_error(part) for part in (*members, error.__cause__) if part is not None]


def _ids_in(error: BaseException) -> set[int]:
    """Return the ids of an error and of all its parts."""
    found, left = {id(error)}, [error]
    while left:
        new = [part for part in _inner(left.pop()) if id(part) not in found]
        found.update(map(id, new))
        left += new
    return found


def _text_of(error: BaseException) -> str:
    return _masked_and_cut("; ".join([error_line(error), *map(str, getattr(error, "__notes__", ()))]))


def error_summary(error: BaseException) -> str:
    """Return the first error in one line, and the number of others."""
    first, *others = leaves(error)
    return f"{error_line(first)} (and {len(others)} more)" if others else error_line(first)


def _masked_and_cut(text: str) -> str:
    """Return the text with secrets masked, cut to `_MAX_TEXT` characters."""
    masked = masked_text(text)
    return masked if len(masked) <= _MAX_TEXT else f"{masked[:_MAX_TEXT]} …"


def error_line(error: BaseException) -> str:
    """Return the error's class and the first line of its text, with secrets masked."""
    try:
        text = _masked_and_cut(str(error).strip().partition("\n")[0])
    except Exception:  # noqa: BLE001 - pyspark's errors get their text from a JVM, which may have exited
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
