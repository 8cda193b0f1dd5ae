"""Fields of the JSON documents. Programs depend on them: a change here is a change of the interface."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sarameya.errors import ConnectionLostError
from sarameya.protocol.cluster.described_groups import ListedGroup, Listing
from sarameya.protocol.cluster.metadata import Broker
from sarameya.service.groups.documents import deletions_document, listing_document, moves_document, report_document
from sarameya.service.groups.reset import OffsetMove
from tests.service.groups.kit import BROKER, group, member, report_of, tp

DOCS = Path(__file__).parents[3] / "docs" / "groups.md"
COORDINATOR = {"id": 1, "host": "kafka", "port": 9092}


def test_listing_names_groups_and_unreachable_brokers() -> None:
    listing = Listing(
        (ListedGroup("g", "consumer", BROKER, "Stable", None),),
        ((Broker(2, "other", 9092), ConnectionLostError("other:9092: refused")),),
    )
    assert listing_document(listing) == {
        "groups": [
            {
                "group": "g",
                "state": "Stable",
                "type": None,
                "protocol_type": "consumer",
                "coordinator": COORDINATOR,
            }
        ],
        "unreachable": [{"broker": {"id": 2, "host": "other", "port": 9092}, "error": "other:9092: refused"}],
    }


def test_report_names_members_partitions_and_advice() -> None:
    report = report_of(
        group(member("a", {"orders": (0,)}), member("b", None, problem="no bytes")),
        committed={"orders-0": 3, "old-0": 1},
        ends={"orders-0": 10},
        missing={"old-0": "no such partition"},
    )
    document = report_document(report)
    assert json.loads(json.dumps(document)) == document
    assert document == {
        "group": "g",
        "state": "Stable",
        "type": "classic",
        "protocol_type": "consumer",
        "assignor": "range",
        "coordinator": COORDINATOR,
        "offsets_partition": {"topic": "__consumer_offsets", "partition": 3, "partitions": 50},
        "lag": 7,
        "members": [
            {
                "member_id": "a-id",
                "group_instance_id": None,
                "client_id": "a",
                "host": "/a",
                "topics": ["orders"],
                "assignment": [{"topic": "orders", "partitions": [0]}],
                "problem": None,
            },
            {
                "member_id": "b-id",
                "group_instance_id": None,
                "client_id": "b",
                "host": "/b",
                "topics": ["orders"],
                "assignment": None,
                "problem": "no bytes",
            },
        ],
        "partitions": [
            {
                "topic": "old",
                "partition": 0,
                "committed_offset": 1,
                "committed_metadata": "",
                "log_start_offset": None,
                "log_end_offset": None,
                "lag": None,
                "member_id": None,
                "client_id": None,
                "host": None,
                "problem": "no such partition",
            },
            {
                "topic": "orders",
                "partition": 0,
                "committed_offset": 3,
                "committed_metadata": "",
                "log_start_offset": 0,
                "log_end_offset": 10,
                "lag": 7,
                "member_id": "a-id",
                "client_id": "a",
                "host": "/a",
                "problem": None,
            },
        ],
        "advice": [],
    }


def test_unknown_offsets_partition_is_null_in_the_report() -> None:
    document = report_document(report_of(group(state="Empty", assignor=""), offsets_partitions=None))
    assert (document["offsets_partition"], document["assignor"], document["lag"]) == (None, None, None)


def test_reset_names_each_partition_before_and_after() -> None:
    moves = [
        OffsetMove(tp("orders-0"), None, 10, 10, 20, "a note"),
        OffsetMove(tp("orders-1"), 3, 0, 0, 5, error="REFUSED (1)"),
    ]
    assert moves_document("g", moves, executed=True) == {
        "group": "g",
        "executed": True,
        "partitions": [
            {
                "topic": "orders",
                "partition": 0,
                "committed_offset": None,
                "new_offset": 10,
                "log_start_offset": 10,
                "log_end_offset": 20,
                "lag": None,
                "new_lag": 10,
                "note": "a note",
                "error": None,
            },
            {
                "topic": "orders",
                "partition": 1,
                "committed_offset": 3,
                "new_offset": 0,
                "log_start_offset": 0,
                "log_end_offset": 5,
                "lag": 2,
                "new_lag": 5,
                "note": None,
                "error": "REFUSED (1)",
            },
        ],
    }


def test_deletion_names_each_commit() -> None:
    assert deletions_document("g", [OffsetMove(tp("orders-0"), 7, None)], executed=False) == {
        "group": "g",
        "executed": False,
        "partitions": [{"topic": "orders", "partition": 0, "committed_offset": 7, "error": None}],
    }


def test_every_field_is_documented() -> None:
    documented = set(re.findall(r"`(?:\w+(?:\[\])?\.)*(\w+)(?:\[\])?`", DOCS.read_text(encoding="utf-8")))
    report = report_of(group(member("a", {"orders": (0,)})), committed={"orders-0": 0}, ends={"orders-0": 0})
    documents = [
        listing_document(Listing((ListedGroup("g", "", BROKER, None, None),), ((BROKER, ConnectionLostError("")),))),
        report_document(report),
        moves_document("g", [OffsetMove(tp("orders-0"), 1, 0)], executed=False),
        deletions_document("g", [OffsetMove(tp("orders-0"), 1, None)], executed=False),
    ]
    assert {name for document in documents for name in names(document)} - documented == set()


def names(document: Any) -> Iterator[str]:
    """Yield the names of all fields, at any depth."""
    if isinstance(document, dict):
        yield from document
        for value in document.values():
            yield from names(value)
    elif isinstance(document, list):
        for item in document:
            yield from names(item)
