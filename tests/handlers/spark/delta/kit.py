"""Made-up histories of Delta tables: commits, and a Spark that tells of them as `DESCRIBE HISTORY` does."""

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
    """Link `number` of ten records each."""
    plain = {
        "key": key,
        "number": number,
        "from_offset": 10 * (number - 1),
        "to_offset": 10 * number,
        "attempt": f"{number:032x}",
        "origin": Origin(group="g"),
        "rows": -1,
    }
    return Link(**{**plain, **changes})


@attrs.define
class History:
    """A table's commits. Each method appends one; `landed` by default as a writer that knows the whole history."""

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
        self._commit(mark=CommitMark(link(number, key), self.newest if seen is None else seen, term))

    def restored(self, version: int) -> None:
        self._commit(restores=version)

    def _commit(self, **what: Any) -> None:
        version = self.newest + 1
        self.commits.insert(0, DeltaCommit(version, f"stamp {version}", **what))


def info(commit: DeltaCommit) -> dict[str, Any]:
    """The `commitInfo` of a commit's file."""
    told: dict[str, Any] = {"timestamp": 1000 + commit.version, "operation": "WRITE", "operationParameters": {}}
    if commit.restores is not None:
        told["operation"] = "RESTORE"
        told["operationParameters"] = {"version": str(commit.restores), "timestamp": "null"}
    if commit.mark is not None:
        told["userMetadata"] = commit.mark.to_json()
        told["operationMetrics"] = {"numOutputRows": "10", "numOutputBytes": "1000"}
    return told


def write_log(root: Path, commits: Sequence[DeltaCommit]) -> None:
    """Write commits as files of a table's log."""
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    for commit in commits:
        txn = {"txn": {"appId": "any", "version": 1}}
        lines = [json.dumps(one, separators=(",", ":")) for one in ({"commitInfo": info(commit)}, txn)]
        (log / f"{commit.version:020d}.json").write_text("\n".join(lines))


class FakeHistorySpark:
    """Answers `DESCRIBE HISTORY`, and counts what it is asked for in `limits`."""

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
        return SimpleNamespace(collect=lambda: [_row(info(one), one.version) for one in self.commits[:limit]])


def _row(told: Mapping[str, Any], version: int) -> Any:
    return SimpleNamespace(
        version=version,
        timestamp=datetime.datetime.fromtimestamp(told["timestamp"], datetime.UTC),
        operation=told["operation"],
        operationParameters=told["operationParameters"],
        operationMetrics=told.get("operationMetrics"),
        userMetadata=told.get("userMetadata"),
    )


GAP = {"kind": Kind.GAP, "reason": "gone", "rows": 0}
