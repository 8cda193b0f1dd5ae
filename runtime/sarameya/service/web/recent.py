"""What has happened of late, as a page shows it: an observer that keeps the last of each kind of news."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from sarameya.observe import Event, HandlerOverdue, Landed, LandingFailed, MembershipChanged, Retrying, event_level
from sarameya.secret import masked_text
from sarameya.service.failures import leaves

KEPT = 100
"""Of events; as many landings are kept besides, since these are many."""


_LONGEST = 2000
"""Characters of a text: stacks and Spark's causes have more, and all of it goes to every page each second."""
_LONGEST_STACK = 4000
"""Of a stack, whose end says the most."""
_DEEPEST, _WIDEST, _MOST = 8, 16, 50
"""Of a tree: levels below the top, errors that one is made of, and errors in all."""


@attrs.frozen(slots=True, kw_only=True)
class Tree:
    """An error and what it is made of: an exception group, or a cause."""

    text: str
    inner: tuple[Tree, ...] = ()


@attrs.frozen(slots=True, kw_only=True)
class LandingFacts:
    """What was, or was to be landed. -1 for what is not known."""

    topic: str
    partition: int
    from_offset: int
    to_offset: int
    rows: int = -1
    size_bytes: int = -1
    seconds: float = -1.0


@attrs.frozen(slots=True, kw_only=True)
class Happening:
    """One line of news."""

    number: int
    """In the order in which they happened."""
    at: float
    """Seconds since 1970."""
    kind: str
    """The event's class, or `Failure`."""
    level: str
    text: str
    tree: Tree | None = None
    landing: LandingFacts | None = None
    stack: str = ""
    """Where a handler stands that is overdue."""
    series: str = ""
    """Of what is tried again and again, the same for all the tries: only the last one is kept."""


class Kept:
    """The last events, and the last landings: these are many, and displace no event."""

    def __init__(self) -> None:
        self._events: deque[Happening] = deque(maxlen=KEPT)
        self._landings: deque[Happening] = deque(maxlen=KEPT)

    def add(self, one: Happening) -> None:
        """The newest. A broker that is away is tried twice a second: its tries would displace what came before."""
        kept = self._events if one.landing is None else self._landings
        if one.series and (before := next((old for old in kept if old.series == one.series), None)) is not None:
            kept.remove(before)
        kept.append(one)

    def __iter__(self) -> Iterator[Happening]:
        yield from self._events
        yield from self._landings


class Recent:
    """Keeps the last events and landings of a member."""

    def __init__(self, wall_clock: Callable[[], float] = time.time) -> None:
        self._wall_clock = wall_clock
        self._kept = Kept()
        self._number = 0
        self._series: dict[str, str] = {}
        """By what is tried again."""

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
        """A member has failed."""
        error = bare(error)
        self._kept.add(self._happening("Failure", "error", line_of(error), tree=tree_of(error)))

    def __iter__(self) -> Iterator[Happening]:
        return iter(sorted(self._kept, key=lambda one: one.number))

    def _series_of(self, event: Event) -> str:
        if not isinstance(event, Retrying):
            return ""
        if event.attempt <= 1 or event.what not in self._series:
            # By its time, too: a worker that begins anew numbers from 1 again.
            self._series[event.what] = f"{self._number}/{self._wall_clock()}"
        return self._series[event.what]

    def _happening(self, kind: str, level: str, text: str, **more: Any) -> Happening:
        self._number += 1
        at, text = self._wall_clock(), _shown(text)  # a landing's cause is in others' words
        return Happening(number=self._number, at=at, kind=kind, level=level, text=text, **more)


def _facts(event: Landed | LandingFailed) -> LandingFacts:
    return LandingFacts(
        topic=event.partition.topic,
        partition=event.partition.partition,
        from_offset=event.from_offset,
        to_offset=event.to_offset,
    )


def bare(error: BaseException) -> BaseException:
    """What a nursery has wrapped a lone failure in says nothing of it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def tree_of(error: BaseException) -> Tree:
    """Groups' members, and causes; notes stay with the text. Those at the top first, no deeper than `_DEEPEST` (causes
    may go in a circle), and no more than `_MOST`: how many more there are is the last thing that it is made of."""
    top = _Node(error, 0)
    shown = [top]
    for node in shown:  # which grows meanwhile
        inner = _inner(node.error)[:_WIDEST] if node.depth < _DEEPEST else []
        node.inner = [_Node(one, node.depth + 1) for one in inner[: _MOST - len(shown)]]
        shown += node.inner
    more = len(_all_of(error) - {id(node.error) for node in shown})
    tree = top.tree()
    return attrs.evolve(tree, inner=(*tree.inner, Tree(text=f"and {more} more"))) if more else tree


@attrs.define(slots=True)
class _Node:
    """An error that is shown, and those below it that are."""

    error: BaseException
    depth: int
    inner: list[_Node] = attrs.field(factory=list)

    def tree(self) -> Tree:
        return Tree(text=_told_of(self.error), inner=tuple(node.tree() for node in self.inner))


def _inner(error: BaseException) -> list[BaseException]:
    """What it is made of."""
    members = [*error.exceptions] if isinstance(error, BaseExceptionGroup) else []
    return [bare(one) for one in (*members, error.__cause__) if one is not None]


def _all_of(error: BaseException) -> set[int]:
    """The ids of it and of all that it is made of."""
    found, left = {id(error)}, [error]
    while left:
        new = [one for one in _inner(left.pop()) if id(one) not in found]
        found.update(map(id, new))
        left += new
    return found


def _told_of(error: BaseException) -> str:
    return _shown("; ".join([line_of(error), *map(str, getattr(error, "__notes__", ()))]))


def told_in_a_line(error: BaseException) -> str:
    """What has failed at the first place, and how much else."""
    first, *others = leaves(error)
    return f"{line_of(first)} (and {len(others)} more)" if others else line_of(first)


def _shown(text: str) -> str:
    """What looks secret masked, and no longer than anybody reads."""
    told = masked_text(text)
    return told if len(told) <= _LONGEST else f"{told[:_LONGEST]} …"


def line_of(error: BaseException) -> str:
    """Its kind, and the first line of what it says, what looks secret masked."""
    try:
        text = _shown(str(error).strip().partition("\n")[0])
    except Exception:  # noqa: BLE001 - pyspark's ask a JVM for their text, which may be gone
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
