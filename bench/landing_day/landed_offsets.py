"""Reads from a table's links which offsets have landed. Changes nothing, and needs no Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import attrs

from sarameya_handlers.landing.directory.manifests import Manifests
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.landing.stores.local import LocalStore
from sarameya_handlers.spark.delta.history.commits import CommitMark

SINK = "sarameya"


class LandedOffsets(Protocol):
    """Reads the landed offsets of all partitions."""

    def __call__(self) -> Sequence[int]:
        """Return the offset after the last landed record of each partition; 0 if none has landed."""


def landed_offsets(kind: str, place: Path, topic: str, partitions: int) -> LandedOffsets:
    """Return the reader for a table of this kind, which may not exist yet."""
    keys = [ChainKey(SINK, topic, partition) for partition in range(partitions)]
    return _Delta(place, keys) if kind == "delta" else _Parquet(place, keys)


@attrs.frozen
class _Parquet:
    place: Path
    keys: Sequence[ChainKey]

    def __call__(self) -> Sequence[int]:
        heads = map(Manifests(LocalStore(self.place)).head, self.keys)
        return [0 if head is None else head.link.to_offset for head in heads]


@attrs.define
class _Delta:
    place: Path
    keys: Sequence[ChainKey]
    _version: int = 0
    _ends: dict[ChainKey, int] = attrs.field(factory=dict)

    def __call__(self) -> Sequence[int]:
        while (commit := self.place / "_delta_log" / f"{self._version:020d}.json").exists():
            for line in commit.read_text(encoding="utf-8").splitlines():
                info = json.loads(line).get("commitInfo")
                if info and (mark := CommitMark.from_json(info.get("userMetadata"))):
                    self._ends[mark.link.key] = mark.link.to_offset
            self._version += 1
        return [self._ends.get(key, 0) for key in self.keys]
