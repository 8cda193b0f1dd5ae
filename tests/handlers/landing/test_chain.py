from __future__ import annotations

import attrs
import pytest

from sarameya_handlers.landing.chain import AttemptState, Chain, Outcome, Settled
from sarameya_handlers.landing.errors import (
    BrokenChainError,
    ChainError,
    ForeignChainError,
    MovedCommitError,
    RewoundTableError,
)
from sarameya_handlers.landing.links import UNKNOWN_EPOCH, ChainKey, Kind, Link, Origin

KEY = ChainKey("warehouse", "orders", 3)
ORIGIN = Origin(group="billing")
HEAD = Link(key=KEY, number=4, from_offset=50, to_offset=90, attempt="a4", origin=ORIGIN, leader_epoch=2)


def after(link: Link, attempt: str, to_offset: int) -> Link:
    return attrs.evolve(link, number=link.number + 1, from_offset=link.to_offset, to_offset=to_offset, attempt=attempt)


def chain_at_head() -> Chain:
    return Chain(KEY, ORIGIN, HEAD)


def test_link_found_in_the_table_is_landed_and_the_head() -> None:
    chain = chain_at_head()
    link = chain.propose(95, 120, attempt="a5", rows=20, leader_epoch=3)
    assert (link.number, link.from_offset, link.to_offset, link.leader_epoch) == (5, 90, 120, 3)
    assert chain.state is AttemptState.TRYING
    assert chain.settle([HEAD, link]) == Settled(Outcome.LANDED, link)
    assert (chain.head, chain.state, chain.next_number) == (link, AttemptState.READY, 6)


def test_first_link_starts_at_the_first_offset_read() -> None:
    chain = Chain(KEY, ORIGIN)
    link = chain.propose(7, 9, attempt="a1")
    assert (link.number, link.from_offset) == (1, 7)
    assert chain.settle([link]).outcome is Outcome.LANDED


def test_lost_attempt_continues_from_the_newest_link() -> None:
    chain = chain_at_head()
    chain.propose(90, 120, attempt="a5")
    other_link = after(HEAD, "b5", 100)
    newest = after(other_link, "b6", 130)
    assert chain.settle([HEAD, other_link, newest]) == Settled(Outcome.LOST, other_link)
    assert chain.head == newest


def test_absent_link_is_retried_and_either_attempt_may_win() -> None:
    chain = chain_at_head()
    first = chain.propose(90, 120, attempt="a5")
    assert chain.settle([HEAD]) == Settled(Outcome.ABSENT, None)
    second = chain.propose(90, 150, attempt="a5'")
    assert second.number == first.number
    assert chain.settle([HEAD, first]) == Settled(Outcome.LANDED, first)
    assert chain.head == first, "the rest of the second attempt has not landed"


def test_late_attempt_after_its_number_was_taken_has_lost() -> None:
    chain = chain_at_head()
    late = chain.propose(90, 120, attempt="a5")
    chain.settle([HEAD])
    chain.propose(90, 120, attempt="a5'")
    other_link = after(HEAD, "b5", 100)
    chain.settle([HEAD, other_link])
    chain.propose(100, 120, attempt="a6")
    assert chain.settle([other_link, attrs.evolve(late, number=6, from_offset=100)]).outcome is Outcome.LOST


def test_gap_has_no_epoch() -> None:
    """The leader at the gap's end may differ from the leader at the head."""
    assert (
        chain_at_head().propose(90, 120, attempt="a5", kind=Kind.GAP, reason="retention").leader_epoch == UNKNOWN_EPOCH
    )


def test_link_without_records_keeps_the_heads_epoch() -> None:
    assert chain_at_head().propose(90, 90, attempt="a5", kind=Kind.RESTATED).leader_epoch == 2


@pytest.mark.parametrize(
    "found",
    [[], [attrs.evolve(HEAD, attempt="b4")], [attrs.evolve(HEAD, number=3, attempt="a3")]],
    ids=["nothing", "another attempt", "an older link"],
)
def test_head_missing_from_the_table_raises(found: list[Link]) -> None:
    chain = chain_at_head()
    chain.propose(90, 120, attempt="a5")
    with pytest.raises(RewoundTableError, match="is not in the table any more"):
        chain.settle(found)


@pytest.mark.parametrize(
    "found",
    [
        [HEAD, attrs.evolve(HEAD, number=6, from_offset=90, to_offset=99, attempt="b6")],
        [HEAD, attrs.evolve(HEAD, number=5, from_offset=91, to_offset=99, attempt="b5")],
    ],
    ids=["a link is missing", "a record is missing"],
)
def test_links_that_do_not_form_a_chain_raise(found: list[Link]) -> None:
    chain = chain_at_head()
    chain.propose(90, 120, attempt="a5")
    with pytest.raises(BrokenChainError, match="does not follow"):
        chain.settle(found)


def test_missing_first_link_raises() -> None:
    chain = Chain(KEY, ORIGIN)
    chain.propose(0, 9, attempt="a1")
    with pytest.raises(BrokenChainError, match="link 1 is missing"):
        chain.settle([HEAD])


@pytest.mark.parametrize(
    ("origin", "error"),
    [
        (Origin(group="audit"), ForeignChainError),
        (Origin(group="billing", topic_id="f" * 32), ForeignChainError),
        (Origin(group="billing", cluster_id="other"), ForeignChainError),
    ],
    ids=["group", "topic", "cluster"],
)
def test_fault_53_foreign_first_link_is_not_our_head(origin: Origin, error: type[ChainError]) -> None:
    chain = Chain(KEY, attrs.evolve(ORIGIN, topic_id=origin.topic_id and "0" * 32, cluster_id="here"))
    chain.propose(7, 9, attempt="a1")
    other_chain = Chain(KEY, origin)
    with pytest.raises(error):
        chain.settle([other_chain.propose(7, 12, attempt="b1")])
    assert chain.head is None


@pytest.mark.parametrize(
    ("offsets", "is_refused"),
    [((5, 9), False), ((5, 7), False), ((7, 9), False), ((5, 6), True), ((8, 20), True)],
    ids=["starts before, ends after", "starts before, ends at it", "starts at it", "ends before", "starts after"],
)
def test_fault_53_shifted_first_link_is_refused(offsets: tuple[int, int], is_refused: bool) -> None:
    """A member presumed dead started the chain at the group's committed offset from before a reset."""
    chain, other_chain = Chain(KEY, ORIGIN), Chain(KEY, ORIGIN)
    chain.propose(7, 9, attempt="a1")
    found = [other_chain.propose(*offsets, attempt="b1")]
    if is_refused:
        with pytest.raises(MovedCommitError):
            chain.settle(found)
        assert chain.head is None
    else:
        assert chain.settle(found).outcome is Outcome.LOST
        assert chain.propose(0, 30, attempt="a2").from_offset == offsets[1]


def test_each_link_records_the_start_offset_of_its_chain() -> None:
    chain = Chain(KEY, ORIGIN)
    first = chain.propose(7, 9, attempt="a1")
    chain.settle([first])
    assert (first.origin.begin, chain.propose(0, 12, attempt="a2").origin.begin) == (7, 7)
