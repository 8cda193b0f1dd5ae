"""Checks of the documents from members' services, before the page shows them. Pure.

An endpoint's answer is not trusted: a document must have every key that the page reads, with the right type.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from sarameya._version import __version__

Document = dict[str, Any]
"""A document of `/status.json` (`web.status_document`)."""

_Number = Annotated[float, msgspec.Meta(gt=-(2**63), lt=2**63)]
"""An offset, a count or a time. A document with a larger number is refused."""
_MAX_DEPTH = 32
"""The maximum depth of an error's tree. Services send a quarter of it. Much deeper JSON could not be encoded again."""


class _Member(msgspec.Struct):
    worker: _Number
    state: str
    failure: str = ""
    restart: str = ""
    member_id: str = ""
    assignor: str = ""
    pid: _Number = 0
    age: _Number = 0
    seconds: _Number = 0
    generation: _Number = 0
    coordinator: _Number = 0
    assigned: _Number = 0
    buffered_bytes: _Number = 0
    budget_bytes: _Number = 0


class _Overdue(msgspec.Struct):
    offset: _Number
    last_offset: _Number
    seconds: _Number


class _Partition(msgspec.Struct):
    topic: str
    activity: str
    reason: str
    partition: _Number
    worker: _Number
    seconds: _Number
    attempt: _Number
    records_a_second: _Number
    position: _Number
    high_water_mark: _Number
    lag: _Number
    committed: _Number
    landed: _Number
    # Earlier versions do not send the keys below.
    overdue: _Overdue | None = None
    attempts: _Number = 0
    committed_lag: _Number = -1
    landed_lag: _Number = -1
    unlanded_seconds: _Number = 0


class _Tree(msgspec.Struct):
    text: str
    inner: list[_Tree]

    @property
    def depth(self) -> int:
        return 1 + max((tree.depth for tree in self.inner), default=0)


class _Entry(msgspec.Struct):
    worker: _Number
    at: _Number
    number: _Number
    kind: str
    text: str


class _Event(_Entry):
    level: str
    tree: _Tree | None = None
    stack: str = ""


class _Batch(msgspec.Struct):
    topic: str
    partition: _Number
    from_offset: _Number
    to_offset: _Number
    rows: _Number
    size_bytes: _Number
    seconds: _Number


class _Landing(_Entry):
    landing: _Batch


class _Point(msgspec.Struct):
    at: _Number
    lag: _Number
    records: _Number
    landed: _Number
    committed_lag: _Number = -1


class _Document(msgspec.Struct):
    members: list[_Member]
    partitions: list[_Partition]
    events: list[_Event]
    landings: list[_Landing]
    reasons: list[str]
    explained: list[str]
    point: dict[str, Any]
    """Empty before the service's first update."""


def parse_document(body: bytes, group: str) -> Document | str:
    """Return the document in `body`, or a line with the reason why it is not the status of a member of the group."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return "no status: the endpoint's answer is no JSON"
    reported_group = document.get("group") if isinstance(document, dict) else None
    if not isinstance(reported_group, str):
        return "no status: the endpoint's answer is no status page"
    if reported_group != group:
        return f"no status: its endpoint belongs to the group {reported_group[:100]!r}"
    try:
        _check(document)
    except (msgspec.ValidationError, RecursionError) as error:
        return f"no status: {error}{_other_version(document)}"
    checked: Document = document
    return checked


def _check(document: Any) -> None:
    """Raise ValidationError for a document that the page cannot show. Keys of newer versions are allowed."""
    typed = msgspec.convert(document, _Document)
    if typed.point:
        msgspec.convert(typed.point, _Point)
    if any(event.tree is not None and event.tree.depth > _MAX_DEPTH for event in typed.events):
        raise msgspec.ValidationError("an event's tree is too deep")


def _other_version(document: Document) -> str:
    """Return a text about the service's version if the dashboard has another version: it may explain the mistake."""
    version = str(document.get("version", "unknown"))
    return "" if version == __version__ else f"; its version is {version[:20]}, the dashboard's is {__version__}"
