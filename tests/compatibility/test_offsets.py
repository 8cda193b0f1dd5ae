"""Landing resumes from each form of a commit, or refuses it. Without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sarameya import CommittedOffset, TopicPartition
from sarameya.observe import ClaimStarted
from sarameya_handlers.landing.errors import ChainError
from tests.compatibility.kit import (
    FIXTURES,
    LATER,
    TOPIC,
    Recorded,
    Store,
    admin_of,
    grow,
    land,
    new_cluster,
    read_commit,
    replay,
)
from tests.conformance.engines import ThreadEngine

RECORDED = Recorded.read()
GROUP = "parquet-plain"
PARTITION = TopicPartition(TOPIC, 0)
HEAD = RECORDED.committed(GROUP)[PARTITION]
NOTE = json.loads(HEAD.metadata)["sarameya"]


def noted(**fields: object) -> str:
    return json.dumps({"sarameya": {**NOTE, **fields}})


RESUMING: dict[str, tuple[CommittedOffset | None, int]] = {
    "no commit": (None, 12),
    "no metadata": (CommittedOffset(12), 12),
    "no metadata, before the head": (CommittedOffset(8), 12),
    "another client's metadata": (CommittedOffset(12, "by hand"), 12),
    "another client's JSON": (CommittedOffset(12, '{"flink": 1}'), 12),
    "an earlier link": (CommittedOffset(8, noted(number=2, attempt="0" * 32)), 12),
    "after the link's end": (CommittedOffset(14, noted()), 14),
    "an unknown field": (CommittedOffset(12, noted(more="x")), 12),
}
"""Commits, and the offsets at which landing resumes. The table's chain ends at 12."""

REFUSED: dict[str, tuple[CommittedOffset, str]] = {
    "a later link": (CommittedOffset(16, noted(number=4)), "the group has committed link 4"),
    "another attempt": (CommittedOffset(12, noted(attempt="0" * 32)), "attempt"),
    "another sink": (CommittedOffset(12, noted(sink="other")), "other"),
    "beyond the table": (CommittedOffset(14), "would never land"),
}


def test_commits_are_read_from_records_of_the_offsets_topic() -> None:
    """The note in a commit's metadata names the sink, the link, and the attempt."""
    commits = json.loads((FIXTURES / "cluster.json").read_text(encoding="utf-8"))["commits"]
    for rows in commits.values():
        for row in rows:
            _, committed = read_commit(bytes.fromhex(row["key"]), bytes.fromhex(row["value"]))
            assert committed.metadata == row["says"]
    assert (HEAD.offset, NOTE.keys(), NOTE["sink"]) == (12, {"sink", "number", "attempt"}, "sarameya")


@pytest.mark.parametrize("form", RESUMING)
async def test_landing_resumes_at_the_expected_offset(form: str, tmp_path: Path) -> None:
    committed, expected = RESUMING[form]
    starts = await started(tmp_path, committed)
    assert starts == {0: expected, 1: 8}


@pytest.mark.parametrize("form", REFUSED)
async def test_contradicting_commit_is_refused(form: str, tmp_path: Path) -> None:
    committed, reason = REFUSED[form]
    with pytest.RaisesGroup(pytest.RaisesExc(ChainError, match=reason), flatten_subgroups=True, allow_unwrapped=True):
        await started(tmp_path, committed)


async def started(directory: Path, committed: CommittedOffset | None) -> dict[int, int]:
    """Return the start offsets of a group that has committed `committed` for the first partition."""
    store = Store(directory)
    store.unpack("parquet", "plain")
    async with new_cluster(at=RECORDED.at) as cluster:
        replay(cluster, RECORDED)
        async with admin_of(cluster) as admin:
            codes = await admin.delete_offsets(GROUP, [PARTITION])
            if committed is not None:
                codes = await admin.commit(GROUP, {PARTITION: committed})
            assert set(codes.values()) == {0}
        grow(cluster, LATER)
        events = await land(cluster, GROUP, store.sink("parquet", "plain", ThreadEngine(), cluster), LATER)
    return {one.partition.partition: one.offset for one in events if isinstance(one, ClaimStarted)}
