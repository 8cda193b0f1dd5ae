"""Links from snapshots: published directly or as copies, only staged, expired, forged."""

from __future__ import annotations

import attrs
import pytest

from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import Kind
from sarameya_handlers.spark.iceberg.history import AppendedLink, History, chain_name, parse_chain_name, wap_id
from tests.handlers.spark.iceberg.kit import KEY, OTHER, FakeMetadata, link


def test_wap_id_holds_any_chain_and_number() -> None:
    assert wap_id(KEY, 7) == "sarameya/sink/orders/0/7"
    assert parse_chain_name(chain_name(OTHER)) == OTHER
    assert wap_id(OTHER, 1).count("/") == 4


def test_new_table_has_no_links_and_a_whole_history() -> None:
    history = FakeMetadata().history()
    assert history.links(KEY, 1) == []
    assert history.newest_of([KEY]) == {}
    assert history.is_whole


def test_links_are_found_by_fast_forward_and_cherry_pick() -> None:
    table, links = FakeMetadata(), [link(n) for n in (1, 2, 3)]
    table.land(links[0])
    staged = table.stage(links[1], rows=4)
    table.land(link(1, key=OTHER))
    assert table.pick(staged) != staged
    table.commit()
    assert table.land(links[2]) == max(table.rows, key=lambda snapshot: table.rows[snapshot][2])

    found = table.history().links(KEY, 1)
    assert [(one.number, one.attempt) for one in found] == [(one.number, one.attempt) for one in links]
    assert [(one.rows, one.size_bytes) for one in found] == [(10, 1000), (4, 400), (10, 1000)]


def test_links_start_at_the_requested_number() -> None:
    table = FakeMetadata()
    for number in (1, 2, 3):
        table.land(link(number))
    assert [one.number for one in table.history().links(KEY, 2)] == [2, 3]
    assert table.history().links(KEY, 4) == []
    assert table.history().links(OTHER, 1) == []


def test_link_without_records_has_no_rows() -> None:
    table = FakeMetadata()
    table.land(link(1), rows=0)
    table.land(link(2, kind=Kind.RESTATED), rows=0)
    table.land(attrs.evolve(link(3, kind=Kind.GAP), from_offset=10), rows=0)
    assert [(one.kind, one.rows) for one in table.history().links(KEY, 1)] == [
        (Kind.RECORDS, 0),
        (Kind.RESTATED, 0),
        (Kind.GAP, 0),
    ]


def test_staged_snapshot_is_not_a_link() -> None:
    table = FakeMetadata()
    table.land(link(1))
    table.stage(link(2))
    assert [one.number for one in table.history().links(KEY, 1)] == [1]


def test_foreign_wap_id_is_not_a_link() -> None:
    table = FakeMetadata()
    table.land(link(1))
    for wap in ("nightly", "sarameya/", "sarameya/a/b/c/d", "sarameya/sink/orders/0", "sarameya/x/sink/orders/0/1"):
        mine = table.stage(link(9), wap=wap)
        table.rows[mine] = (*table.rows[mine][:6], None, *table.rows[mine][7:])
        table.pick(mine)
    assert [one.number for one in table.history().links(KEY, 1)] == [1]


def test_rolled_back_links_are_not_in_the_history() -> None:
    table = FakeMetadata()
    first = table.land(link(1))
    table.land(link(2))
    assert [one.number for one in table.history().at(first).links(KEY, 1)] == [1]


def test_expired_links_are_missing_at_the_start() -> None:
    table = FakeMetadata()
    landed = [table.land(link(number)) for number in (1, 2, 3)]
    table.expire(landed[:1])
    history = table.history()
    assert [one.number for one in history.links(KEY, 1)] == [2, 3]
    assert not history.is_whole


def test_copied_link_with_an_expired_source_has_only_a_number() -> None:
    table = FakeMetadata()
    table.land(link(1))
    staged = table.stage(link(2))
    table.commit()
    table.pick(staged)
    table.expire([staged])
    assert table.history().newest_of([KEY]) == {KEY: AppendedLink(KEY, 2, None)}
    assert table.history().links(KEY, 1) == []
    after = link(3)
    table.land(after)
    assert [one.number for one in table.history().links(KEY, 1)] == [3]


def test_links_of_all_chains_equal_those_of_each_chain() -> None:
    table = FakeMetadata()
    for one in (link(1), link(1, key=OTHER), link(2), link(2, key=OTHER), link(3)):
        table.land(one)
    staged = table.stage(link(3, key=OTHER))
    table.commit()
    table.pick(staged)
    table.expire([staged])
    table.land(link(4, key=OTHER))
    history = table.history()
    assert history.all_links([KEY, OTHER]) == {key: history.links(key, 1) for key in (KEY, OTHER)}
    assert [one.number for one in history.all_links([OTHER])[OTHER]] == [4]
    assert history.all_links([]) == {}


def test_newest_link_of_each_requested_chain_is_found() -> None:
    table = FakeMetadata()
    links = [link(1), link(1, key=OTHER), link(2)]
    for one in links:
        table.land(one)
    newest = table.history().newest_of([KEY, OTHER])
    assert {key: found.link.attempt for key, found in newest.items() if found.link} == {
        KEY: links[2].attempt,
        OTHER: links[1].attempt,
    }
    assert list(table.history().newest_of([OTHER])) == [OTHER]
    assert table.history().newest_of([]) == {}


def test_staged_attempt_is_found_among_others() -> None:
    table, own, other = FakeMetadata(), link(1), link(1)
    staged = {one.attempt: table.stage(one) for one in (other, own)}
    found = table.history().staged(own)
    assert found is not None
    assert found.snapshot_id == staged[own.attempt]
    assert table.history().staged(link(1)) is None


def test_unpublished_snapshots_are_those_without_a_copy() -> None:
    table = FakeMetadata()
    table.land(link(1))
    lost, copied = table.stage(link(2)), table.stage(link(2))
    table.commit()
    table.pick(copied)
    ((snapshot, key, number),) = table.history().unpublished()
    assert (snapshot.snapshot_id, key, number) == (lost, KEY, 2)
    assert snapshot.size_bytes == 1000


def test_link_that_bypassed_the_audit_breaks_the_chain() -> None:
    table = FakeMetadata()
    staged = table.stage(link(1))
    table.rows[staged] = (*table.rows[staged][:3], None, *table.rows[staged][4:])
    table.pick(staged)
    with pytest.raises(BrokenChainError, match=r"write\.wap\.enabled"):
        table.history().links(KEY, 1)


def test_link_published_under_another_number_breaks_the_chain() -> None:
    table = FakeMetadata()
    table.pick(table.stage(link(2), wap=wap_id(KEY, 1)))
    with pytest.raises(BrokenChainError, match=r"published as link 1 of .*, but its summary has link 2"):
        table.history().links(KEY, 1)


def test_unreadable_link_breaks_the_chain() -> None:
    table = FakeMetadata()
    staged = table.stage(link(1))
    table.rows[staged] = (*table.rows[staged][:6], "{", *table.rows[staged][7:])
    table.pick(staged)
    with pytest.raises(BrokenChainError, match="no link"):
        table.history().links(KEY, 1)


def test_history_is_extended_with_new_snapshots() -> None:
    table = FakeMetadata()
    first = table.land(link(1))
    before = table.history()
    table.land(link(2))
    more = before.with_more([row for row in table.rows.values() if row[2] >= before.newest], table.current)
    assert [one.number for one in more.links(KEY, 1)] == [1, 2]
    assert more.reaches(first)


def test_history_ends_at_a_missing_snapshot() -> None:
    table = FakeMetadata()
    first = table.land(link(1))
    second = table.land(link(2))
    table.land(link(3))
    rows = [row for row in table.rows.values() if row[0] != second]
    assert not History().with_more(rows, table.current).reaches(first)
    assert table.history().reaches(first)
