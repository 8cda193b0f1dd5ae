"""A chain's entries in a Delta commit, written and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.spark.delta.history.commits import (
    CommitMark,
    DeltaCommit,
    app_id,
    key_of,
    number_of,
    txn_version,
)
from tests.handlers.spark.delta.kit import GAP, KEY, link

WRITTEN = {"numOutputRows": "7", "numOutputBytes": "512", "numFiles": "1"}


def commit(metadata: str | None = None, operation: str = "WRITE", **changes: object) -> DeltaCommit:
    fields = {"parameters": {"mode": "Append"}, "metrics": WRITTEN, **changes}
    return DeltaCommit.of(4, stamp="now", operation=operation, metadata=metadata, **fields)  # type: ignore[arg-type]


@given(st.text(min_size=1), st.text(min_size=1), st.integers(0, 10**6))
def test_app_id_round_trips(sink: str, topic: str, partition: int) -> None:
    key = ChainKey(sink, topic, partition)
    assert key_of(app_id(key)) == key


def test_app_ids_of_similar_keys_differ() -> None:
    assert app_id(ChainKey("a/b", "c", 0)) != app_id(ChainKey("a", "b/c", 0))


@pytest.mark.parametrize("app", ["", "orders", "sarameya:", "sarameya:a/b", "sarameya:a/b/c", "sarameya:a/b/c/0"])
def test_foreign_app_id_is_no_chain(app: str) -> None:
    assert key_of(app) is None


def test_txn_version_orders_by_term_and_number() -> None:
    assert txn_version(0, 7) == 7
    assert txn_version(3, 1) > txn_version(2, 10**9) > txn_version(0, 10**9)
    assert number_of(txn_version(12, 345)) == 345


def test_mark_round_trips() -> None:
    mark = CommitMark(link(3), seen=17, term=5)
    assert CommitMark.from_json(mark.to_json()) == mark


@pytest.mark.parametrize("text", [None, "", "nightly load", "{}", '{"sarameya', '["sarameya"]', '{"app": "sarameya"}'])
def test_foreign_metadata_is_no_mark(text: str | None) -> None:
    assert CommitMark.from_json(text) is None


def test_malformed_mark_is_refused() -> None:
    with pytest.raises(BrokenChainError, match="do not describe a link"):
        CommitMark.from_json('{"sarameya": {"link": {}}}')


def test_link_has_deltas_row_count_and_size() -> None:
    found = commit(CommitMark(link(1), -1, 0).to_json())
    assert found.mark is not None
    assert (found.mark.link.rows, found.mark.link.size_bytes) == (7, 512)


def test_link_without_metrics_has_unknown_rows() -> None:
    found = commit(CommitMark(link(1), -1, 0).to_json(), metrics={})
    assert found.mark is not None
    assert (found.mark.link.rows, found.mark.link.size_bytes) == (-1, -1)


def test_gap_has_no_rows() -> None:
    found = commit(CommitMark(link(2, **GAP), -1, 0).to_json())
    assert found.mark is not None
    assert found.mark.link.rows == 0


@pytest.mark.parametrize(
    ("parameters", "version"),
    [
        ({"version": "12", "timestamp": None}, 12),
        ({"version": "0", "timestamp": "null"}, 0),
        ({"version": 3}, 3),
        ({"version": None, "timestamp": "2026-11-22 02:50:15.168"}, -1),
        ({"version": "null", "timestamp": '"2026-11-22"'}, -1),
    ],
)
def test_restore_has_its_target_version(parameters: dict[str, object], version: int) -> None:
    assert commit(operation="RESTORE", parameters=parameters).restores == version


def test_foreign_commit_has_no_mark() -> None:
    assert commit(operation="OPTIMIZE", parameters={"version": "3"}) == DeltaCommit(4, "now")
    assert commit(CommitMark(link(1, KEY), -1, 0).to_json(), operation="CREATE TABLE").mark is not None
