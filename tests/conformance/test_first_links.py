"""Two that begin one chain at once: of two groups or topics, or a zombie from before an offset reset."""

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
from tests.conformance.owners import KEY, ORIGIN, Owner, at
from tests.conformance.proof import rows_of

BEGIN = 20
FOREIGN = {
    "group": Origin(group="other", topic_id=ORIGIN.topic_id),
    "topic": attrs.evolve(ORIGIN, topic_id="f" * 32),
}


def beaten_to_it(table: Table, shape: Shape, sessions: list[Any], rival: Origin, begin: int) -> Owner:
    """An owner that is about to begin a chain at BEGIN when a rival does. Raises what it makes of that."""
    owner = Owner(table, sessions[0], shape, begin=BEGIN)

    def first() -> None:
        assert Owner(table, sessions[1], shape, origin=rival, begin=begin).append(4).outcome is Outcome.LANDED

    owner.append(3, at(Phase.STAGED, first))
    return owner


@pytest.mark.parametrize("differs", FOREIGN)
def test_fault_53_foreign_first_link_is_refused(contender: Contender, place: Place, differs: str) -> None:
    refuses(contender, place, ForeignChainError, FOREIGN[differs], BEGIN)


@pytest.mark.parametrize("begin", [BEGIN - 10, BEGIN + 1])
def test_fault_53_first_link_before_an_offset_reset_is_refused(contender: Contender, place: Place, begin: int) -> None:
    refuses(contender, place, MovedCommitError, ORIGIN, begin)


def test_first_link_of_the_same_beginning_is_adopted(contender: Contender, place: Place) -> None:
    with contender.sessions(place, 2) as sessions:
        table = contender.table(place)
        table.open(sessions[0])
        owner = beaten_to_it(table, contender.shape, sessions, ORIGIN, BEGIN)
        assert owner.position == BEGIN + 4
        assert owner.append(2).outcome is Outcome.LANDED


def refuses(contender: Contender, place: Place, error: type[ChainError], rival: Origin, begin: int) -> None:
    with contender.sessions(place, 2) as sessions:
        table = contender.table(place)
        table.open(sessions[0])
        with pytest.raises(error):
            beaten_to_it(table, contender.shape, sessions, rival, begin)
        assert sorted(row.offset for row in rows_of(table, sessions[1])) == [*range(begin, begin + 4)]
        (link,) = table.links(sessions[1], KEY, 1)
        assert link.origin == attrs.evolve(rival, begin=begin), "the table remembers who has begun the chain"


@pytest.mark.parametrize("begin", [BEGIN, BEGIN + 1])
def test_fault_53_first_link_that_is_not_compared_is_found_out(
    begin: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bug put back: the suite notices."""
    monkeypatch.setattr("sarameya_handlers.landing.chain.check_lost_start", lambda *_: None)
    table = table_named(f"parquet:{tmp_path / 'table'}")
    table.open(None)  # type: ignore[arg-type]
    owner = beaten_to_it(table, Shaping(), [None, None], FOREIGN["group"], begin)
    assert owner.chain.head is not None, "adopted, and committed next"
    assert owner.chain.head.origin.is_other(ORIGIN)
