"""What a commit of a Delta table says of a chain: how it is written, and how it is read back. Pure.

    txn            appId   sarameya:<sink>/<topic>/<partition>     each part percent-encoded
                   version the link's number; above it the term, where the table has been restored
    userMetadata   {"sarameya": {"link": {...}, "seen": 41, "term": 0}}

Both are in the commit that adds the rows. `txn` is the compare-and-swap: Delta takes a version only above the one that
it has of this appId, and refuses a commit beside which another one has changed it. It says no more than the number;
what the link is, the metadata say.

RESTORE brings back rows, but never a smaller `txn`. So a chain that goes on after it does so in a new *term*, named by
the version of that commit, and each of its numbers is above all of older terms. `seen` is the newest version that the
writer knew: a link that was written in ignorance of a RESTORE shows.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """The `txn` appId of a chain."""
    return f"{APP_PREFIX}{quote(key.sink, safe='')}/{quote(key.topic, safe='')}/{key.partition}"


def key_of(app: str) -> ChainKey | None:
    """The chain of an appId; None for anybody else's."""
    if not app.startswith(APP_PREFIX):
        return None
    match app.removeprefix(APP_PREFIX).split("/"):
        case [sink, topic, partition] if partition.isdecimal():
            return ChainKey(unquote(sink), unquote(topic), int(partition))
    return None


def txn_version(term: int, number: int) -> int:
    """The `txn` version of a link."""
    return term << _NUMBER_BITS | number


def number_of(version: int) -> int:
    """The link's number that a `txn` version says."""
    return version & (1 << _NUMBER_BITS) - 1


@attrs.frozen(slots=True)
class Mark:
    """What a commit's metadata say: the link, the newest version that its writer knew (-1: no table), its term."""

    link: Link
    seen: int
    term: int

    def to_json(self) -> str:
        return msgspec.json.encode({_TAG: self}, order="deterministic").decode()

    @classmethod
    def from_json(cls, text: str | None) -> Self | None:
        """None for metadata of others. Raises BrokenChainError for such as only `to_json` makes, and did not."""
        if not text or f'"{_TAG}"' not in text:
            return None
        try:
            told: dict[str, Any] = msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.MsgspecError:
            return None
        if _TAG not in told:
            return None
        try:
            return msgspec.convert(told[_TAG], type=cls)
        except msgspec.MsgspecError as error:
            raise BrokenChainError(f"a commit's metadata are no link: {error}: {text[:200]}") from error


@attrs.frozen(slots=True)
class Commit:
    """One version of the table, as far as chains are concerned."""

    version: int
    stamp: str
    """Tells it from another commit of the same version, of a table made anew; empty if its writer says none."""
    mark: Mark | None = None
    restores: int | None = None
    """The version that it brought back; None if it is no RESTORE, -1 if it does not say which."""

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
        """From what `DESCRIBE HISTORY` says, or the `commitInfo` of a commit's file, which is the same."""
        mark = Mark.from_json(metadata)
        if mark is not None:
            mark = attrs.evolve(mark, link=_counted(mark.link, metrics))
        restores = _number(parameters.get("version")) if operation == RESTORE else None
        return cls(version, stamp, mark, restores)


def _counted(link: Link, metrics: Mapping[str, Any]) -> Link:
    """The link with what Delta has counted while it wrote."""
    if link.kind is not Kind.RECORDS:
        return link
    return attrs.evolve(
        link, rows=_number(metrics.get("numOutputRows")), size_bytes=_number(metrics.get("numOutputBytes"))
    )


def _number(told: Any) -> int:
    text = str(told).strip('"')
    return int(text) if text.isdecimal() else _UNKNOWN
