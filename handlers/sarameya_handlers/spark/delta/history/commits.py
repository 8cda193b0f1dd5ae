"""Links in Delta commits: how they are written, and how they are read back. Pure.

    txn            appId   sarameya:<sink>/<topic>/<partition>     each part percent-encoded
                   version the link's number; in the bits above it the term, 0 before the first RESTORE
    userMetadata   {"sarameya": {"link": {...}, "seen": 41, "term": 0}}

The commit that adds the rows has both. `txn` is the compare-and-swap: Delta accepts only a version above the last one
of this appId, and refuses a commit if another one changed it concurrently. `txn` holds only the number; the metadata
describe the link.

RESTORE brings back an older state of the rows, but never lowers a `txn`. So a chain continues after a RESTORE in a new
*term*, whose number is the version of the RESTORE. Its `txn` versions are then above those of older terms. `seen` is
the newest version that the writer knew: it reveals a link whose writer did not know of a RESTORE.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Self
from urllib.parse import quote, unquote

import attrs
import msgspec

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import ChainKey, Kind, Link

APP_PREFIX = "sarameya:"
RESTORE = "RESTORE"

_TAG = "sarameya"
_NUMBER_BITS = 32
_UNKNOWN = -1


def app_id(key: ChainKey) -> str:
    """Return the `txn` appId of a chain."""
    return f"{APP_PREFIX}{quote(key.sink, safe='')}/{quote(key.topic, safe='')}/{key.partition}"


def key_of(app: str) -> ChainKey | None:
    """Return the chain of an appId; None if the appId is not ours."""
    if not app.startswith(APP_PREFIX):
        return None
    match app.removeprefix(APP_PREFIX).split("/"):
        case [sink, topic, partition] if partition.isdecimal():
            return ChainKey(unquote(sink), unquote(topic), int(partition))
    return None


def txn_version(term: int, number: int) -> int:
    """Return the `txn` version of a link."""
    return term << _NUMBER_BITS | number


def number_of(version: int) -> int:
    """Return the link number in a `txn` version."""
    return version & (1 << _NUMBER_BITS) - 1


def commit_content(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the content of a commit's file: an action a line (Delta protocol, Actions)."""
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions).encode()


@attrs.frozen(slots=True)
class CommitMark:
    """A link as a commit's metadata record it, with its term and the newest version that its writer knew (-1: none)."""

    link: Link
    seen: int
    term: int

    def to_json(self) -> str:
        return msgspec.json.encode({_TAG: self}, order="deterministic").decode()

    @classmethod
    def from_json(cls, text: str | None) -> Self | None:
        """Parse a commit's metadata; None if they are not ours.

        Raises:
            BrokenChainError: They have our tag, but do not describe a link.
        """
        if not text or f'"{_TAG}"' not in text:
            return None
        try:
            decoded: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.MsgspecError:
            return None
        if _TAG not in decoded:
            return None
        try:
            return msgspec.convert(decoded[_TAG], type=cls)
        except msgspec.MsgspecError as error:
            raise BrokenChainError(f"a commit's metadata do not describe a link: {error}: {text[:200]}") from error


@attrs.frozen(slots=True)
class DeltaCommit:
    """A version of the table: the fields that chains need."""

    version: int
    stamp: str
    """Distinguishes commits of the same version, if the table was recreated; empty if the writer recorded none."""
    mark: CommitMark | None = None
    restores: int | None = None
    """The version that a RESTORE restored, -1 if it is not recorded. None for any other operation."""

    @classmethod
    def of(
        cls,
        version: int,
        *,
        stamp: str,
        operation: str,
        parameters: Mapping[str, Any],
        metrics: Mapping[str, Any],
        metadata: str | None,
    ) -> Self:
        """Build a commit from a row of `DESCRIBE HISTORY`, or from the same fields in a commit file's `commitInfo`."""
        mark = CommitMark.from_json(metadata)
        if mark is not None:
            mark = attrs.evolve(mark, link=_with_metrics(mark.link, metrics))
        restores = _number(parameters.get("version")) if operation == RESTORE else None
        return cls(version, stamp, mark, restores)


def _with_metrics(link: Link, metrics: Mapping[str, Any]) -> Link:
    """Return the link with the rows and bytes that Delta counted while it wrote."""
    if link.kind is not Kind.RECORDS:
        return link
    return attrs.evolve(
        link, rows=_number(metrics.get("numOutputRows")), size_bytes=_number(metrics.get("numOutputBytes"))
    )


def _number(value: Any) -> int:
    text = str(value).strip('"')
    return int(text) if text.isdecimal() else _UNKNOWN
