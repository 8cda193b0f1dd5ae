"""Histories of Delta tables for tests: commits as log files, and a fake Spark that answers `DESCRIBE HISTORY`."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs

from sarameya_handlers.landing.links import ChainKey, Kind, Link, Origin
from sarameya_handlers.spark.delta.history.commits import CommitMark, DeltaCommit

KEY = ChainKey("sink", "orders", 0)
OTHER = ChainKey("sink", "orders", 1)


def link(number: int, key: ChainKey = KEY, **changes: Any) -> Link:
    """Return link `number` of a chain with ten records in each link. `changes` replaces fields."""
    fields = {
        "key": key,
        "number": number,
        "from_offset": 10 * (number - 1),
        "to_offset": 10 * number,
        "attempt": f"{number:032x}",
        "origin": Origin(group="g"),
        "rows": -1,
    }
    return Link(**{**fields, **changes})


@attrs.define
class History:
    """A table's commits. `other`, `landed` and `restored` append to them."""

    commits: list[DeltaCommit] = attrs.field(factory=list)
    """Newest first."""

    @property
    def newest(self) -> int:
        return self.commits[0].version if self.commits else -1

    def other(self, count: int = 1) -> None:
        """Append commits of another writer."""
        for _ in range(count):
            self._commit()

    def landed(self, number: int, key: ChainKey = KEY, *, seen: int | None = None, term: int = 0) -> None:
        """Append a commit of a link. Its writer has seen the commits up to version `seen`, by default all."""
        self._commit(mark=CommitMark(link(number, key), self.newest if seen is None else seen, term))

    def restored(self, version: int) -> None:
        """Append a RESTORE to a version."""
        self._commit(restores=version)

    def _commit(self, **fields: Any) -> None:
        version = self.newest + 1
        self.commits.insert(0, DeltaCommit(version, f"stamp {version}", **fields))


def info(commit: DeltaCommit) -> dict[str, Any]:
    """Return the `commitInfo` of a commit's file."""
    fields: dict[str, Any] = {"timestamp": 1000 + commit.version, "operation": "WRITE", "operationParameters": {}}
    if commit.restores is not None:
        fields["operation"] = "RESTORE"
        fields["operationParameters"] = {"version": str(commit.restores), "timestamp": "null"}
    if commit.mark is not None:
        fields["userMetadata"] = commit.mark.to_json()
        fields["operationMetrics"] = {"numOutputRows": "10", "numOutputBytes": "1000"}
    return fields


def write_log(root: Path, commits: Sequence[DeltaCommit]) -> None:
    """Write commits as files of a table's log."""
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for commit in commits:
        txn = {"txn": {"appId": "any", "version": 1}}
        lines = [json.dumps(action, separators=(",", ":")) for action in ({"commitInfo": info(commit)}, txn)]
        (log / f"{commit.version:020d}.json").write_text("\n".join(lines))


class FakeHistorySpark:
    """A session that answers `DESCRIBE HISTORY`. `limits` has the LIMIT of each query so far."""

    def __init__(self, commits: Sequence[DeltaCommit]) -> None:
        self.commits = commits
        self.limits: list[int] = []
        self.error: Exception | None = None

    def sql(self, text: str) -> Any:
        match = re.fullmatch(r"DESCRIBE HISTORY (\S+) LIMIT (\d+)", text)
        assert match is not None, text
        if self.error:
            raise self.error
        limit = int(match[2])
        self.limits.append(limit)
        return SimpleNamespace(collect=lambda: [_row(info(commit), commit.version) for commit in self.commits[:limit]])


def _row(fields: Mapping[str, Any], version: int) -> Any:
    return SimpleNamespace(
        version=version,
        timestamp=datetime.datetime.fromtimestamp(fields["timestamp"], datetime.UTC),
        operation=fields["operation"],
        operationParameters=fields["operationParameters"],
        operationMetrics=fields.get("operationMetrics"),
        userMetadata=fields.get("userMetadata"),
    )


GAP = {"kind": Kind.GAP, "reason": "gone", "rows": 0}
"""The changes that make a link of `link` a gap."""
