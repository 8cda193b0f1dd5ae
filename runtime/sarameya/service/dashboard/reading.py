"""What an endpoint has answered, as a member's document, or why it is none. Pure.

Whoever answers there may be anybody: nothing of it is believed that the page could stumble over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from sarameya._version import __version__

Document = dict[str, Any]
"""What `/status.json` says (`web.document`)."""

_LARGEST_NUMBER = 2**63
"""Offsets are less; what is more, no page shows."""
_DEEPEST = 32
"""Of an error's tree; services make them a quarter as deep."""


def status_of(body: bytes, group: str) -> Document | str:
    """The document, or why there is no status of a member of the group."""
    try:
        said = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return "no status: what its endpoint answers is no JSON"
    told_group = said.get("group") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(told_group, str):
        return "no status: what its endpoint answers is no status page's"
    if told_group != group:
        return f"no status: its endpoint is one of the group {told_group[:100]!r}"
    try:
        _DOCUMENT(said, "")
    except _OddError as error:
        return f"no status: {error}{_version(said)}"
    return said


def _version(said: Document) -> str:
    """For who wonders why."""
    version = str(said.get("version", "not told"))
    return "" if version == __version__ else f"; its version is {version[:20]}, and this one's {__version__}"


class _OddError(Exception):
    """What is wrong, and where."""


_Check = Callable[[Any, str], None]
"""Raises _OddError for a value; told where it stands."""


def _refuse_constant(name: str) -> None:
    """Python writes these, and no browser reads them."""
    raise ValueError(name)


def _text(value: Any, where: str) -> None:
    if not isinstance(value, str):
        raise _OddError(f"{where} is no text")


def _number(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LARGEST_NUMBER:
        raise _OddError(f"{where} is no number")


def _list(check: _Check) -> _Check:
    def checked(value: Any, where: str) -> None:
        if not isinstance(value, list):
            raise _OddError(f"{where} is no list")
        for number, one in enumerate(value):
            check(one, f"{where}[{number}]")

    return checked


def _object(needed: Mapping[str, _Check], others: Mapping[str, _Check] | None = None) -> _Check:
    """`others` may be left out."""

    def checked(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _OddError(f"{where or 'it'} is no object")
        before = f"{where}." if where else ""
        for name, check in needed.items():
            if name not in value:
                raise _OddError(f"{before}{name} is missing")
            check(value[name], before + name)
        for name, check in (others or {}).items():
            if name in value:
                check(value[name], before + name)

    return checked


def _tree(value: Any, where: str, depth: int = 0) -> None:
    """Of an event; None where it has none."""
    if value is None:
        return
    if depth > _DEEPEST:
        raise _OddError(f"{where} is too deep")
    _object({"text": _text, "inner": _list(lambda one, at: _tree(one, at, depth + 1))})(value, where)


def _point(value: Any, where: str) -> None:
    """Empty before the first look."""
    if value != {}:
        needed = dict.fromkeys(("at", "lag", "records", "landed"), _number)
        _object(needed, {"committed_lag": _number})(value, where)


def _overdue(value: Any, where: str) -> None:
    """None where the handler is not overdue."""
    if value is not None:
        _object(dict.fromkeys(("offset", "last_offset", "seconds"), _number))(value, where)


_HAPPENING = {"worker": _number, "at": _number, "number": _number, "kind": _text, "text": _text}
_MEMBER = _object(
    {"worker": _number, "state": _text},
    {
        **dict.fromkeys(("failure", "restart", "member_id", "assignor"), _text),
        **dict.fromkeys(("pid", "age", "seconds", "generation", "coordinator", "assigned"), _number),
        **dict.fromkeys(("buffered_bytes", "budget_bytes"), _number),
    },
)
_PARTITION = _object(
    {
        **dict.fromkeys(("topic", "activity", "reason"), _text),
        **dict.fromkeys(("partition", "worker", "seconds", "attempt", "records_a_second"), _number),
        **dict.fromkeys(("position", "high_water_mark", "lag", "committed", "landed"), _number),
    },
    {
        "overdue": _overdue,
        **dict.fromkeys(("attempts", "committed_lag", "landed_lag", "unlanded_seconds"), _number),
    },
)
_LANDING = _object(
    {
        "topic": _text,
        **dict.fromkeys(("partition", "from_offset", "to_offset", "rows", "size_bytes", "seconds"), _number),
    }
)
_DOCUMENT = _object(
    {
        "members": _list(_MEMBER),
        "partitions": _list(_PARTITION),
        "events": _list(_object({**_HAPPENING, "level": _text}, {"tree": _tree, "stack": _text})),
        "landings": _list(_object({**_HAPPENING, "landing": _LANDING})),
        "reasons": _list(_text),
        "explained": _list(_text),
        "point": _point,
    }
)
