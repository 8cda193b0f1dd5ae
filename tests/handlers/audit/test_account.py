"""Each offset of a chain has a row, or a reason why it has no row."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sarameya_handlers.audit.facts import ChainFacts, Count, Counts
from sarameya_handlers.audit.verify.account import Account, account_of
from sarameya_handlers.audit.verify.spans import spans_of
from sarameya_handlers.landing.links import ChainKey, Kind, Link
from tests.handlers.audit.fake_table import links_of
from tests.handlers.audit.kit import World, worlds

KEY = ChainKey("warehouse", "orders", 0)
(LINK,) = links_of(KEY, 30, start=10)


@pytest.mark.parametrize(
    ("changes", "with_rows", "account"),
    [
        pytest.param({}, 20, Account(with_rows=20), id="plain"),
        pytest.param({}, 18, Account(with_rows=18, missing=2), id="rows deleted"),
        pytest.param({"dead_letters": 3}, 17, Account(with_rows=17, dead_letters=3), id="dead letters"),
        pytest.param({"records": 15}, 15, Account(with_rows=15, without_record=5), id="control records"),
        pytest.param({"is_transformed": True, "rows": 5}, 5, Account(with_rows=5, dropped=15), id="transform"),
        pytest.param(
            {"is_transformed": True, "rows": 12},
            10,
            Account(with_rows=10, dropped=8, missing=2),
            id="rows of a transform deleted",
        ),
        pytest.param({"records": 15}, 16, Account(with_rows=16, without_record=4), id="foreign row"),
        pytest.param(
            {"records": 10, "dead_letters": 3}, 19, Account(with_rows=19, dead_letters=1), id="many foreign rows"
        ),
        pytest.param({"records": -1}, 12, Account(with_rows=12, unknown=8), id="older version"),
        pytest.param(
            {"kind": Kind.GAP, "rows": 0, "records": -1, "reason": "retention"}, 0, Account(gaps=20), id="gap"
        ),
        pytest.param(
            {"records": 18, "dead_letters": 1, "is_transformed": True, "rows": 10},
            10,
            Account(with_rows=10, dead_letters=1, dropped=7, without_record=2),
            id="everything",
        ),
    ],
)
def test_each_offset_of_a_link_is_accounted_for(changes: dict[str, object], with_rows: int, account: Account) -> None:
    link = attrs.evolve(LINK, **changes)
    assert account_of(*counted(link, with_rows=with_rows)) == account
    assert account.offsets == 20


def test_forgotten_links_are_unknown() -> None:
    origin = attrs.evolve(LINK.origin, begin=4)
    link = attrs.evolve(LINK, number=7, origin=origin)
    assert account_of(*counted(link, with_rows=20)) == Account(with_rows=20, unknown=6)


def counted(link: Link, *, with_rows: int) -> tuple[ChainFacts, Counts]:
    chain = ChainFacts(key=KEY, head=link, links=(link,))
    counts = {span: Count(with_rows, with_rows, 10, 29) for span in spans_of([chain], forgets=False).spans[:1]}
    return chain, Counts(counts if link.kind is Kind.RECORDS else {})


@given(worlds(), st.data())
@settings(max_examples=100, deadline=None)
def test_account_adds_up_to_the_length_of_the_chain(world: World, data: st.DataObject) -> None:
    """The sum holds with a deleted row too, and only the account of that row changes."""
    row = data.draw(st.sampled_from(world.rows)) if world.rows else None
    fewer = attrs.evolve(world, rows=tuple(other for other in world.rows if other != row)).facts()
    for before, after in zip(world.facts().chains, fewer.chains, strict=True):
        whole, damaged = account_of(before, world.facts().counts), account_of(after, fewer.counts)  # type: ignore[arg-type]
        assert whole.offsets == damaged.offsets == before.links[-1].to_offset - before.links[0].from_offset
        assert whole.missing == 0
        deleted = whole.with_rows - damaged.with_rows
        assert deleted in (0, 1)
        assert min(attrs.astuple(damaged)) >= 0
        assert damaged.missing + damaged.dropped + damaged.unknown - whole.dropped - whole.unknown == deleted
