from __future__ import annotations

import json

import attrs
import pytest

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import UNKNOWN_BEGIN, ChainKey, CommitNote, Kind, Link, Origin, check_chain

KEY = ChainKey("warehouse", "orders", 3)
ORIGIN = Origin(group="billing", topic_id="0123456789abcdef" * 2)
FIRST = Link(key=KEY, number=1, from_offset=5, to_offset=9, rows=4, attempt="a1", origin=ORIGIN, leader_epoch=2)
SECOND = attrs.evolve(FIRST, number=2, from_offset=9, to_offset=9, rows=0, attempt="a2", kind=Kind.RESTATED)


@pytest.mark.parametrize("link", [FIRST, SECOND, attrs.evolve(FIRST, kind=Kind.GAP, rows=0, reason="retention")])
def test_link_is_parsed_from_its_json(link: Link) -> None:
    text = link.to_json()
    assert "\n" not in text
    assert Link.from_json(text) == link


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", FIRST.to_json()[:-1], FIRST.to_json().replace('"records"', '"guess"')]
)
def test_invalid_json_of_a_link_raises(text: str) -> None:
    with pytest.raises(BrokenChainError, match="no link"):
        Link.from_json(text)


@pytest.mark.parametrize(
    "change",
    [
        {"number": 0},
        {"attempt": ""},
        {"from_offset": -1},
        {"to_offset": 4},
        {"kind": Kind.GAP, "rows": 0},
        {"kind": Kind.GAP, "reason": "retention"},
        {"kind": Kind.RESTATED, "rows": 0},
    ],
)
def test_invalid_link_raises(change: dict[str, object]) -> None:
    with pytest.raises(BrokenChainError, match=r"of warehouse/orders-3"):
        attrs.evolve(FIRST, **change)


def test_invalid_link_in_json_raises() -> None:
    with pytest.raises(BrokenChainError, match="its end is not before"):
        Link.from_json(FIRST.to_json().replace('"to_offset":9', '"to_offset":4'))


@pytest.mark.parametrize(
    "change",
    [
        {"number": 3},
        {"from_offset": 8},
        {"from_offset": 10, "to_offset": 10},
        {"key": ChainKey("warehouse", "orders", 4)},
        {"origin": Origin(group="audit")},
        {"origin": Origin(group="billing", topic_id="f" * 32)},
    ],
)
def test_link_that_does_not_follow_its_predecessor_raises(change: dict[str, object]) -> None:
    successor = attrs.evolve(SECOND, kind=Kind.RECORDS, **change)
    with pytest.raises(BrokenChainError, match="does not follow"):
        check_chain([FIRST, successor])


def test_contiguous_links_are_a_chain_without_topic_ids() -> None:
    check_chain([])
    check_chain([FIRST, SECOND])
    check_chain([attrs.evolve(FIRST, origin=Origin(group="billing")), SECOND])


def test_note_is_parsed_from_the_metadata_of_a_commit() -> None:
    metadata = CommitNote.of(FIRST).to_metadata()
    assert CommitNote.from_metadata(metadata) == CommitNote("warehouse", 1, "a1")
    assert len(metadata) < 200


@pytest.mark.parametrize("metadata", ["", "consumer-1", "7", "{}", '{"sarameya": 7}', '{"sarameya": {"sink": "a"}}'])
def test_metadata_of_other_consumers_is_no_note(metadata: str) -> None:
    assert CommitNote.from_metadata(metadata) is None


@pytest.mark.parametrize(
    ("origin", "is_other"),
    [
        (ORIGIN, False),
        (attrs.evolve(ORIGIN, begin=9), True),
        (attrs.evolve(ORIGIN, begin=-1), False),
        (attrs.evolve(ORIGIN, cluster_id="elsewhere"), False),
        (attrs.evolve(ORIGIN, cluster_id="elsewhere", topic_id=""), True),
        (attrs.evolve(ORIGIN, cluster_id="", topic_id=""), False),
    ],
)
def test_origins_differ_where_a_known_field_differs(origin: Origin, is_other: bool) -> None:
    own_origin = attrs.evolve(ORIGIN, cluster_id="here", begin=7)
    if origin is ORIGIN or origin.begin == UNKNOWN_BEGIN:
        assert own_origin.is_other(origin) is origin.is_other(own_origin)
    assert own_origin.is_other(origin) is is_other


def test_link_of_an_older_version_lacks_cluster_and_begin() -> None:
    older = json.loads(FIRST.to_json())
    del older["origin"]["cluster_id"], older["origin"]["begin"]
    assert Link.from_json(json.dumps(older)) == FIRST
