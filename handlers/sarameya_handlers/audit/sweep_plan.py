"""The plan of a sweep: the leftovers to remove, and the chains whose heads are restated first. Pure.

The process that left a file may be suspended, not dead. When it continues, it appends its link if no other owner has
appended one of the same number, and its data must exist then. So the sweep uses the number first: a chain without a
newer link gets an empty one that restates its head. After that no older attempt can win, however late its process
continues.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs

from sarameya.service import counted, table
from sarameya_handlers.audit.wording import age, amount
from sarameya_handlers.landing.chain import Chain
from sarameya_handlers.landing.directory.data_files import Unpublished
from sarameya_handlers.landing.links import Kind, Link
from sarameya_handlers.spark.tables.table import Leftover

SAFE_AGE = 3_600.0
"""Seconds for which a write may be under way. Sweeping younger files has to be forced."""
SKEW = 300.0
"""Seconds by which the clocks of a table's writers may differ."""


@attrs.frozen(slots=True, kw_only=True)
class Swept:
    """A leftover in a sweep: whether it is due, and the result of its removal."""

    leftover: Leftover
    age: float
    is_due: bool
    is_removed: bool = False
    kept: str = ""
    """Reason why it is kept, although it is due."""
    error: str = ""


def plan_sweep(leftovers: Iterable[Leftover], older_than: float, now: float, *, is_forced: bool = False) -> list[Swept]:
    """Plan which leftovers to remove; the oldest come first.

    A leftover is due if it is unchanged for `older_than` seconds. Unless the sweep `is_forced`, it must be unchanged at
    least as long as a job of another process may still use it.
    """

    def planned(leftover: Leftover) -> Swept:
        age = now - leftover.changed
        at_least = older_than if is_forced else max(older_than, leftover.others_may_take)
        return Swept(leftover=leftover, age=age, is_due=age >= at_least)

    found = [planned(leftover) for leftover in leftovers]
    return sorted(found, key=lambda swept: (-swept.age, swept.leftover.name))


def to_restate(heads: Iterable[Link], plan: Iterable[Swept]) -> list[Link]:
    """Return the heads after which a due leftover might still be appended: those that may be older than it."""
    newest = max((swept.leftover.changed for swept in plan if swept.is_due), default=None)
    if newest is None:
        return []
    return [head for head in heads if head.tried_at / 1000 <= newest + SKEW]


def restated(head: Link, now: float) -> Link:
    """Return the empty link that takes the next number."""
    return Chain(head.key, head.origin, head).propose(
        head.to_offset, head.to_offset, attempt=uuid.uuid4().hex, kind=Kind.RESTATED, tried_at=int(now * 1000)
    )


# -- output ------------------------------------------------------------------------------------------

_SHOWN = 100


@attrs.frozen(slots=True, kw_only=True)
class Sweep:
    """The findings of a sweep, and its results if it `is_executed`."""

    table: str
    older_than: float
    is_executed: bool
    unpublished: Sequence[Unpublished] = ()
    """Files to publish; published if the sweep `is_executed`."""
    restate: Sequence[Link] = ()
    """Heads of the chains that get an empty link."""
    plan: Sequence[Swept] = ()


def sweep_text(sweep: Sweep) -> str:
    """Return the text for a person."""
    plan, executed = sweep.plan, sweep.is_executed
    parts = [f"TABLE {sweep.table}"]
    if sweep.unpublished:
        parts.append("\n".join(_unpublished(sweep)))
    if not plan:
        return "\n\n".join([*parts, "There are no leftovers."])
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
    for found in sweep.unpublished:
        rows = f"up to {amount(found.rows, 'row')}"
        if sweep.is_executed:
            yield f"{found.what} was not published, and plain readers missed {rows}. It is published now."
        else:
            yield (
                f"{found.what} is not published, and plain readers miss {rows}. --execute publishes it; "
                "--older-than does not apply."
            )


def _fate(swept: Swept, executed: bool) -> str:
    if swept.error:
        return f"not removed: {swept.error}"
    if swept.kept:
        return f"kept: {swept.kept}"
    if not swept.is_due:
        return "kept: too young"
    if not executed:
        return "to be removed"
    return "removed" if swept.is_removed else "kept: no longer a leftover"


def _sums(plan: Sequence[Swept], restate: Sequence[Link], executed: bool) -> list[str]:
    due = [swept for swept in plan if (swept.is_removed if executed else swept.is_due)]
    size = sum(swept.leftover.size_bytes for swept in due)
    chains = counted(len(restate), "chain")
    lines = []
    if restate:
        what = "was given" if executed else "will be given"
        lines.append(f"{chains} {what} an empty link first, so that no removed file can still be appended.")
    if executed:
        lines.append(f"{amount(len(due), 'leftover')} of {size:,} bytes removed.")
    else:
        lines.append(f"{amount(len(due), 'leftover')} of {size:,} bytes to be removed.")
        if due:
            lines.append("Nothing is changed yet: add --execute to do it.")
    return lines


def sweep_document(sweep: Sweep) -> dict[str, Any]:
    """Return the document for programs."""
    return {
        "table": sweep.table,
        "executed": sweep.is_executed,
        "older_than": sweep.older_than,
        "unpublished": [{"what": each.what, "rows": each.rows} for each in sweep.unpublished],
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
                "kept": swept.kept or None,
                "error": swept.error or None,
            }
            for swept in sweep.plan
        ],
    }
