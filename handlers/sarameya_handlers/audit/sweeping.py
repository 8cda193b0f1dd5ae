"""What is swept of a table, and which chains are re-stated before: pure.

Whoever left something behind may be asleep, not dead: a process that was stopped in the middle of a landing appends
its link when it wakes, if nobody else has taken its number, and its data must be there then. So the number is taken
first: a chain in which nothing has been appended since is given an empty link that re-states its head. After that
nothing that was there before can win any more, however late it wakes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from sarameya.service import counted, table
from sarameya_handlers.audit.wording import age, amount
from sarameya_handlers.landing.chain import Chain
from sarameya_handlers.landing.data_files import Unpublished
from sarameya_handlers.landing.links import Kind, Link
from sarameya_handlers.spark.tables.table import Leftover

SAFE_AGE = 3_600.0
"""Seconds in which a landing may be on its way: sweeping what is younger has to be forced."""
SKEW = 300.0
"""Seconds by which the clocks of a table's writers may differ."""


@attrs.frozen(slots=True, kw_only=True)
class Swept:
    """A leftover, and what becomes of it."""

    leftover: Leftover
    age: float
    is_due: bool
    is_removed: bool = False
    error: str = ""


def plan_sweep(leftovers: Iterable[Leftover], older_than: float, now: float, *, is_forced: bool = False) -> list[Swept]:
    """Those that have not changed for `older_than` seconds are due, and, unless it `is_forced`, for as long as somebody
    else's job may have them on its way; the oldest first."""

    def planned(leftover: Leftover) -> Swept:
        age = now - leftover.changed
        at_least = older_than if is_forced else max(older_than, leftover.others_may_take)
        return Swept(leftover=leftover, age=age, is_due=age >= at_least)

    found = [planned(leftover) for leftover in leftovers]
    return sorted(found, key=lambda swept: (-swept.age, swept.leftover.name))


def to_restate(heads: Iterable[Link], plan: Iterable[Swept]) -> list[Link]:
    """The heads behind which what is due might still be appended: they are no younger than it, for sure."""
    newest = max((swept.leftover.changed for swept in plan if swept.is_due), default=None)
    if newest is None:
        return []
    return [head for head in heads if head.tried_at / 1000 <= newest + SKEW]


def restated(head: Link, now: float) -> Link:
    """The link that takes the next number."""
    return Chain(head.key, head.origin, head).propose(
        head.to_offset, head.to_offset, attempt=uuid.uuid4().hex, kind=Kind.RESTATED, tried_at=int(now * 1000)
    )


# -- what is told ------------------------------------------------------------------------------------

_SHOWN = 100


@attrs.frozen(slots=True, kw_only=True)
class Sweep:
    """What a sweep has found of a table, and, where it `is_executed`, has done."""

    table: str
    older_than: float
    is_executed: bool
    unpublished: Sequence[Unpublished] = ()
    """Published where it `is_executed`."""
    restate: Sequence[Link] = ()
    """Heads of the chains that get an empty link."""
    plan: Sequence[Swept] = ()


def sweep_text(sweep: Sweep) -> str:
    """Return what a person reads."""
    plan, executed = sweep.plan, sweep.is_executed
    parts = [f"TABLE {sweep.table}"]
    if sweep.unpublished:
        parts.append("\n".join(_unpublished(sweep)))
    if not plan:
        return "\n\n".join([*parts, "Nothing has been left behind."])
    rows = [
        (_fate(swept, executed), age(swept.age), swept.leftover.size_bytes, swept.leftover.what, swept.leftover.name)
        for swept in plan[:_SHOWN]
    ]
    parts.append(table(("", "AGE", "BYTES", "WHAT", "NAME"), rows))
    if len(plan) > _SHOWN:
        parts.append(f"and {len(plan) - _SHOWN} more (--json has them all)")
    parts.append("\n".join(_sums(plan, sweep.restate, executed)))
    return "\n\n".join(parts)


def _unpublished(sweep: Sweep) -> Iterator[str]:
    for one in sweep.unpublished:
        rows = f"up to {amount(one.rows, 'row')}"
        if sweep.is_executed:
            yield f"{one.what} was not finished, plain readers missed {rows}: it is finished now."
        else:
            yield f"{one.what} is not finished, plain readers miss {rows}: --execute finishes it, whatever its age."


def _fate(swept: Swept, executed: bool) -> str:
    if swept.error:
        return f"not removed: {swept.error}"
    if not swept.is_due:
        return "kept: too young"
    if not executed:
        return "to be removed"
    return "removed" if swept.is_removed else "kept: it is no leftover any more"


def _sums(plan: Sequence[Swept], restate: Sequence[Link], executed: bool) -> list[str]:
    due = [swept for swept in plan if (swept.is_removed if executed else swept.is_due)]
    size = sum(swept.leftover.size_bytes for swept in due)
    chains = counted(len(restate), "chain")
    lines = []
    if restate:
        what = "was given" if executed else "will be given"
        lines.append(f"{chains} {what} an empty link first, so that nothing that is removed can still be appended.")
    if executed:
        lines.append(f"{amount(len(due), 'leftover')} of {size:,} bytes removed.")
    else:
        lines.append(f"{amount(len(due), 'leftover')} of {size:,} bytes to be removed.")
        if due:
            lines.append("Nothing is changed yet: add --execute to do it.")
    return lines


def sweep_document(sweep: Sweep) -> dict[str, Any]:
    """Return what programs read."""
    return {
        "table": sweep.table,
        "executed": sweep.is_executed,
        "older_than": sweep.older_than,
        "unpublished": [{"what": one.what, "rows": one.rows} for one in sweep.unpublished],
        "restated": [
            {"sink": head.key.sink, "topic": head.key.topic, "partition": head.key.partition, "number": head.number + 1}
            for head in sweep.restate
        ],
        "leftovers": [
            {
                "name": swept.leftover.name,
                "what": swept.leftover.what,
                "size_bytes": swept.leftover.size_bytes,
                "changed": swept.leftover.changed,
                "others_may_take": swept.leftover.others_may_take,
                "due": swept.is_due,
                "removed": swept.is_removed,
                "error": swept.error or None,
            }
            for swept in sweep.plan
        ],
    }
