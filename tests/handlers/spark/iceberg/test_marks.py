"""Marks of chains in a table's properties, and those that they supersede."""

from __future__ import annotations

import re
from itertools import permutations

import pytest

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.spark.iceberg.marks import ChainMark, chain_marks, superseded
from tests.handlers.spark.iceberg.kit import KEY, OTHER, link


def properties(*marks: ChainMark) -> dict[str, str]:
    return {mark.name: mark.value for mark in marks}


def test_marks_are_sorted_by_number() -> None:
    marks = [
        ChainMark.begun(KEY, 3, "a"),
        ChainMark.rest(link(9)),
        ChainMark.begun(KEY, 10, "b"),
        ChainMark.begun(KEY, 9, "c"),
    ]
    for order in permutations(marks):
        assert chain_marks(properties(*order)) == {KEY: [marks[0], marks[3], marks[1], marks[2]]}


def test_rest_mark_holds_the_head() -> None:
    head = link(9, key=OTHER)
    [[begun, rest]] = chain_marks(properties(ChainMark.rest(head), ChainMark.begun(OTHER, 9, "a"))).values()
    assert (begun.head(), rest.head()) == (None, head)


def test_unreadable_mark_breaks_the_chain() -> None:
    [[mark]] = chain_marks({ChainMark.rest(link(9)).name: "7b"}).values()
    with pytest.raises(BrokenChainError):
        mark.head()
    [[mark]] = chain_marks({ChainMark.rest(link(9)).name: "begun"}).values()
    with pytest.raises(BrokenChainError, match="the table's property for it is not a link: begun"):
        mark.head()


def test_foreign_properties_are_not_marks() -> None:
    assert chain_marks({"owner": "me", "sarameya.chain.zz.1": "begun x", "sarameya.chain.00": "x"}) == {}


@pytest.mark.parametrize(
    ("new", "removed"),
    [
        (ChainMark.begun(KEY, 6, "b"), ["3", "5", "5.rest", "7", "8.rest"]),
        (ChainMark.rest(link(5)), ["3", "5", "7", "8.rest"]),
        (ChainMark.rest(link(8)), ["3", "5", "5.rest", "6", "7"]),
        (ChainMark.begun(KEY, 9, "b"), ["3", "5", "5.rest", "6", "7", "8.rest"]),
    ],
)
def test_new_mark_supersedes_all_but_a_foreign_next_link(new: ChainMark, removed: list[str]) -> None:
    """Higher marks belong to links that no longer exist: the chain's end was read from the same table."""
    seen = [ChainMark.begun(KEY, number, "a") for number in (3, 5, 6, 7)] + [ChainMark.rest(link(n)) for n in (5, 8)]
    there = chain_marks(properties(*seen, ChainMark.begun(OTHER, 1, "a")))
    prefix = ChainMark.begun(KEY, 1, "a").name.removesuffix("1")
    assert sorted(mark.name.removeprefix(prefix) for mark in superseded(there, [new])) == sorted(removed)


@pytest.mark.parametrize("name", ["orders-hourly", "password", "access.key", "s3cret-token"])
def test_mark_holds_no_text_that_spark_redacts(name: str) -> None:
    """The pattern is the default of `spark.redaction.regex` and `spark.sql.redaction.options.regex`."""
    hidden = re.compile(r"(?i)secret|password|token|access[.]?key|url")
    key = ChainKey(name, name, 0)
    head_of_key = Link(key=key, number=1, from_offset=0, to_offset=1, attempt=name, origin=Origin(group=name))
    assert hidden.search(f"{name}, {head_of_key.to_json()}")
    for mark in (ChainMark.begun(key, 1, "0123456789abcdef"), ChainMark.rest(head_of_key)):
        assert not hidden.search(f"{mark.name} = {mark.value}")
