"""Two owners start the same chain at the same time: of two groups or topics, or one from before an offset reset."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.landing.errors import ChainError, ForeignChainError, MovedCommitError
from sarameya_handlers.landing.links import Origin
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.named import table_named
from sarameya_handlers.spark.tables.table import Phase, Shape, Table
from tests.conformance.contenders import Contender, Place
from tests.conformance.invariants import rows_of
from tests.conformance.owners import KEY, ORIGIN, Owner, at

BEGIN = 20
FOREIGN = {
    "group": Origin(group="other", topic_id=ORIGIN.topic_id),
    "topic": attrs.evolve(ORIGIN, topic_id="f" * 32),
}


def append_after_rival(table: Table, shape: Shape, sessions: list[Any], rival: Origin, begin: int) -> Owner:
    """Land as an owner that starts a chain at BEGIN, after a rival has started it. Raises the owner's error."""
    owner = Owner(table, sessions[0], shape, begin=BEGIN)

    def rival_appends() -> None:
        assert Owner(table, sessions[1], shape, origin=rival, begin=begin).append(4).outcome is Outcome.LANDED

    owner.append(3, at(Phase.STAGED, rival_appends))
    return owner


@pytest.mark.parametrize("differs", FOREIGN)
def test_fault_53_foreign_first_link_is_refused(contender: Contender, place: Place, differs: str) -> None:
    check_refused(contender, place, ForeignChainError, FOREIGN[differs], BEGIN)


@pytest.mark.parametrize("begin", [BEGIN - 10, BEGIN + 1])
def test_fault_53_first_link_before_an_offset_reset_is_refused(contender: Contender, place: Place, begin: int) -> None:
    check_refused(contender, place, MovedCommitError, ORIGIN, begin)


def test_first_link_with_the_same_start_offset_is_adopted(contender: Contender, place: Place) -> None:
    with contender.sessions(place, 2) as sessions:
        table = contender.table(place)
        table.open(sessions[0])
        owner = append_after_rival(table, contender.shape, sessions, ORIGIN, BEGIN)
        assert owner.position == BEGIN + 4
        assert owner.append(2).outcome is Outcome.LANDED


def check_refused(contender: Contender, place: Place, error: type[ChainError], rival: Origin, begin: int) -> None:
    with contender.sessions(place, 2) as sessions:
        table = contender.table(place)
        table.open(sessions[0])
        with pytest.raises(error):
            append_after_rival(table, contender.shape, sessions, rival, begin)
        assert sorted(row.offset for row in rows_of(table, sessions[1])) == [*range(begin, begin + 4)]
        (link,) = table.links(sessions[1], KEY, 1)
        assert link.origin == attrs.evolve(rival, begin=begin), "the table stores the origin of the chain"


@pytest.mark.parametrize("begin", [BEGIN, BEGIN + 1])
def test_fault_53_suite_detects_an_unchecked_first_link(
    begin: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `check_chain_of_another_owner`, which fixed fault 53, the owner adopts a foreign link."""
    monkeypatch.setattr("sarameya_handlers.landing.chain.check_chain_of_another_owner", lambda *_: None)
    table = table_named(f"parquet:{tmp_path / 'table'}")
    table.open(None)  # type: ignore[arg-type]
    owner = append_after_rival(table, Shaping(), [None, None], FOREIGN["group"], begin)
    assert owner.chain.head is not None, "the foreign link was adopted, and would be committed next"
    assert owner.chain.head.origin.is_other(ORIGIN)
