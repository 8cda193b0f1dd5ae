"""A sound table is proved. Each possible defect is found at its place, without other findings."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sarameya import CommittedOffset
from sarameya_handlers.audit.facts import ChainFacts, ClusterFacts, Count, Counts, Facts, GroupFacts, LogSpan
from sarameya_handlers.audit.verify.findings import SEVERITY, Code, Severity
from sarameya_handlers.audit.verify.spans import spans_of
from sarameya_handlers.audit.verify.verdict import is_proved, judge
from sarameya_handlers.landing.links import ChainKey, CommitNote, Kind, Link, Origin
from sarameya_handlers.spark.tables.table import Leftover
from tests.handlers.audit.kit import NOW, World, worlds

Found = set[tuple[Code, str]]
Break = Callable[[st.DataObject, World], tuple[World, Found]]


def against_proof(facts: Facts, accept: tuple[Code, ...] = ()) -> Found:
    """Return the code and place of each finding that prevents a proof."""
    return {(finding.code, finding.where) for finding in judge(facts, accept) if finding.prevents_proof}


@given(worlds())
@settings(max_examples=200, deadline=None)
def test_sound_table_is_proved(world: World) -> None:
    assert against_proof(world.facts()) == set()
    assert is_proved(judge(world.facts()))


# -- one defect ----------------------------------------------------------------------------------


def a_link(data: st.DataObject, world: World, wanted: Callable[[Link], bool] = lambda link: True) -> Link:
    links = [link for chain in world.chains for link in chain if wanted(link)]
    assume(links)
    return data.draw(st.sampled_from(links))


def a_row(data: st.DataObject, world: World) -> tuple[str, int, int, Link]:
    """Draw a row that a link landed, and that link."""
    linked = [
        (*row, link)
        for row in world.rows
        for chain in world.chains
        for link in chain
        if (row[0], row[1]) == (link.key.topic, link.key.partition) and link.from_offset <= row[2] < link.to_offset
    ]
    assume(linked)
    return data.draw(st.sampled_from(linked))


def without(world: World, row: tuple[str, int, int]) -> World:
    rows = list(world.rows)
    rows.remove(row)
    return attrs.evolve(world, rows=tuple(rows))


def plus(world: World, *rows: tuple[str | None, int | None, int | None]) -> World:
    return attrs.evolve(world, rows=(*world.rows, *rows))


def relinked(world: World, before: Link, *after: Link) -> World:
    """Return the world with the link `before` replaced by the links `after`."""
    chains = tuple(
        tuple(new for link in chain for new in (after if link == before else (link,))) for chain in world.chains
    )
    return attrs.evolve(world, chains=chains)


def a_row_is_missing(data: st.DataObject, world: World) -> tuple[World, Found]:
    *row, link = a_row(data, world)
    return without(world, tuple(row)), {(Code.ROWS_MISSING, str(link.key))}


def a_row_is_duplicated(data: st.DataObject, world: World) -> tuple[World, Found]:
    *row, link = a_row(data, world)
    where = str(link.key)
    return plus(world, tuple(row)), {(Code.ROWS_EXTRA, where), (Code.OFFSETS_REPEATED, where)}


def a_row_replaces_another(data: st.DataObject, world: World) -> tuple[World, Found]:
    """Repeat one row and drop another: the number of rows is right."""
    *row, link = a_row(data, world)
    others = [
        other for other in world.rows if other[:2] == tuple(row[:2]) and link.from_offset <= other[2] < link.to_offset
    ]
    assume(len(others) > 1)
    removed = data.draw(st.sampled_from([other for other in others if other != tuple(row)]))
    found = {(Code.OFFSETS_REPEATED, str(link.key))}
    if link.expected_rows is not None:  # otherwise a transform may have made both rows from one record
        found |= {(Code.ROWS_MISSING, str(link.key))}
    return plus(without(world, removed), tuple(row)), found


def a_row_of_another_writer(data: st.DataObject, world: World) -> tuple[World, Found]:
    link = a_link(data, world, lambda link: link.kind is Kind.RECORDS and link.rows < link.to_offset - link.from_offset)
    taken = {row[2] for row in world.rows if row[:2] == (link.key.topic, link.key.partition)}
    free = [offset for offset in range(link.from_offset, link.to_offset) if offset not in taken]
    row = (link.key.topic, link.key.partition, data.draw(st.sampled_from(free)))
    return plus(world, row), {(Code.ROWS_EXTRA, str(link.key))}


def a_record_has_no_outcome(data: st.DataObject, world: World) -> tuple[World, Found]:
    link = a_link(data, world, lambda link: not link.is_transformed and 0 <= link.records < link.length)
    return relinked(world, link, attrs.evolve(link, records=link.records + 1)), {
        (Code.RECORDS_UNACCOUNTED, str(link.key))
    }


def a_row_without_a_record(data: st.DataObject, world: World) -> tuple[World, Found]:
    """Two rows of a transform may have one offset, but no row may have an offset without a record."""
    link = a_link(data, world, lambda link: link.is_transformed and 0 < link.rows == link.records - link.dead_letters)
    fewer = attrs.evolve(link, records=link.records - 1)
    return relinked(world, link, fewer), {(Code.ROWS_EXTRA, str(link.key))}


def a_row_after_the_head(data: st.DataObject, world: World) -> tuple[World, Found]:
    head = data.draw(st.sampled_from(world.chains))[-1]
    offset = head.to_offset + data.draw(st.integers(0, 10**12))
    return plus(world, (head.key.topic, head.key.partition, offset)), {(Code.ROWS_OUTSIDE, str(head.key))}


def a_row_before_the_chain(data: st.DataObject, world: World) -> tuple[World, Found]:
    first = a_link(data, world, lambda link: link.number == 1 and link.from_offset > 0)
    row = (first.key.topic, first.key.partition, data.draw(st.integers(0, first.from_offset - 1)))
    return plus(world, row), {(Code.ROWS_OUTSIDE, str(first.key.topic_partition))}


def a_row_in_a_gap(data: st.DataObject, world: World) -> tuple[World, Found]:
    gap = a_link(data, world, lambda link: link.kind is Kind.GAP)
    row = (gap.key.topic, gap.key.partition, data.draw(st.integers(gap.from_offset, gap.to_offset - 1)))
    return plus(world, row), {(Code.ROWS_OUTSIDE, str(gap.key.topic_partition))}


def a_row_of_another_partition(data: st.DataObject, world: World) -> tuple[World, Found]:
    return plus(world, ("orders", 77, 5)), {(Code.ROWS_OUTSIDE, "orders-77")}


def a_row_without_coordinates(data: st.DataObject, world: World) -> tuple[World, Found]:
    row = data.draw(st.sampled_from([(None, 0, 1), ("orders", None, 1), ("orders", 0, None)]))
    return plus(world, row), {(Code.ROWS_OUTSIDE, "")}


def a_duplicate_offset_before_the_remembered_links(data: st.DataObject, world: World) -> tuple[World, Found]:
    chain = data.draw(st.sampled_from(world.chains))
    assume(chain[0].from_offset > 0 and chain[0].number == 1)
    later = tuple(attrs.evolve(link, number=link.number + 3) for link in chain)
    chains = tuple(later if one is chain else one for one in world.chains)
    commits = {where: commit for where, commit in world.committed.items() if where != chain[0].key.topic_partition}
    world = attrs.evolve(world, chains=chains, forgets=True, committed=commits)
    row = (chain[0].key.topic, chain[0].key.partition, 0)
    return plus(world, row, row), {(Code.OFFSETS_REPEATED, str(chain[0].key))}


def a_link_is_missing(data: st.DataObject, world: World) -> tuple[World, Found]:
    chain = data.draw(st.sampled_from(world.chains))
    assume(len(chain) > 2)
    removed = data.draw(st.sampled_from(chain[1:-1]))
    expected = {(Code.LINK_MISSING, str(removed.key))}
    if removed.rows:
        expected.add((Code.ROWS_OUTSIDE, str(removed.key.topic_partition)))
    return relinked(world, removed), expected


def the_first_link_is_missing(data: st.DataObject, world: World) -> tuple[World, Found]:
    assume(not world.forgets)
    chain = data.draw(st.sampled_from(world.chains))
    assume(len(chain) > 1)
    first = chain[0]
    expected = {(Code.LINK_MISSING, str(first.key))}
    if first.rows:
        expected.add((Code.ROWS_OUTSIDE, str(first.key.topic_partition)))
    return relinked(world, first), expected


def a_link_starts_late(data: st.DataObject, world: World) -> tuple[World, Found]:
    """Move the start of a link, as a longer batch of a zombie does: some offsets are in no link."""
    chain = data.draw(st.sampled_from(world.chains))
    assume(len(chain) > 1)
    link = data.draw(st.sampled_from(chain[1:]))
    assume(link.kind is Kind.RECORDS and link.to_offset > link.from_offset)
    kept = [row for row in world.rows if row != (link.key.topic, link.key.partition, link.from_offset)]
    rows = link.rows - (len(world.rows) - len(kept))
    late = attrs.evolve(link, from_offset=link.from_offset + 1, rows=rows, records=-1)
    world = attrs.evolve(world, rows=tuple(kept))
    return relinked(world, link, late), {(Code.RANGE_BROKEN, str(link.key))}


def a_link_starts_early(data: st.DataObject, world: World) -> tuple[World, Found]:
    """Move the start of a link back: two links cover some offsets."""
    chain = data.draw(st.sampled_from(world.chains))
    assume(len(chain) > 1)
    link = data.draw(st.sampled_from(chain[1:]))
    assume(link.kind is Kind.RECORDS and link.from_offset > chain[0].from_offset)
    early = attrs.evolve(link, from_offset=link.from_offset - 1)
    return relinked(world, link, early), {(Code.RANGE_BROKEN, str(link.key))}


def a_duplicate_link_number(data: st.DataObject, world: World) -> tuple[World, Found]:
    link = a_link(data, world)
    again = attrs.evolve(
        link, from_offset=link.to_offset, rows=0, records=-1, kind=Kind.RESTATED, reason="", attempt="f" * 32
    )
    assume(all(link in chain[:-1] for chain in world.chains if link.key == chain[0].key))
    return relinked(world, link, link, again), {(Code.RANGE_BROKEN, str(link.key))}


def a_link_of_another_group(data: st.DataObject, world: World) -> tuple[World, Found]:
    chain = data.draw(st.sampled_from(world.chains))
    assume(len(chain) > 2)
    link = data.draw(st.sampled_from(chain[1:-1]))
    other = attrs.evolve(link, origin=Origin(group="audit", topic_id=link.origin.topic_id))
    return relinked(world, link, other), {(Code.ORIGIN_CHANGED, str(link.key))}


def committed(world: World, link: Link, commit: CommittedOffset) -> World:
    where, log = link.key.topic_partition, world.logs[link.key.topic_partition]
    logs = {**world.logs, where: attrs.evolve(log, end=max(log.end or 0, commit.offset))}
    return attrs.evolve(world, committed={**world.committed, where: commit}, logs=logs)


def the_table_was_restored(data: st.DataObject, world: World) -> tuple[World, Found]:
    head = data.draw(st.sampled_from(world.chains))[-1]
    note = CommitNote("warehouse", head.number + data.draw(st.integers(1, 5)), "e" * 32)
    world = committed(world, head, CommittedOffset(head.to_offset + 3, note.to_metadata()))
    return world, {(Code.TABLE_REWOUND, str(head.key))}


def the_table_was_restored_and_has_new_links(data: st.DataObject, world: World) -> tuple[World, Found]:
    head = data.draw(st.sampled_from(world.chains))[-1]
    note = CommitNote("warehouse", head.number, "e" * 32)
    world = committed(world, head, CommittedOffset(head.to_offset, note.to_metadata()))
    return world, {(Code.TABLE_REWOUND, str(head.key))}


def the_commit_was_moved(data: st.DataObject, world: World) -> tuple[World, Found]:
    head = data.draw(st.sampled_from(world.chains))[-1]
    world = committed(world, head, CommittedOffset(head.to_offset + data.draw(st.integers(1, 9))))
    return world, {(Code.COMMIT_MOVED, str(head.key))}


def the_group_lands_elsewhere(data: st.DataObject, world: World) -> tuple[World, Found]:
    head = data.draw(st.sampled_from(world.chains))[-1]
    world = committed(world, head, CommittedOffset(head.to_offset, CommitNote("other", 1, "e" * 32).to_metadata()))
    return world, {(Code.CHAIN_FOREIGN, str(head.key))}


def the_topic_was_recreated(data: st.DataObject, world: World) -> tuple[World, Found]:
    head = data.draw(st.sampled_from(world.chains))[-1]
    assume(head.origin.topic_id)
    where = head.key.topic_partition
    logs = {**world.logs, where: attrs.evolve(world.logs[where], topic_id="0f" * 16)}
    return attrs.evolve(world, logs=logs), {(Code.CHAIN_FOREIGN, str(head.key))}


def the_log_was_truncated(data: st.DataObject, world: World) -> tuple[World, Found]:
    head = data.draw(st.sampled_from(world.chains))[-1]
    assume(head.to_offset > 0)
    where = head.key.topic_partition
    logs = {**world.logs, where: attrs.evolve(world.logs[where], start=0, end=head.to_offset - 1)}
    return attrs.evolve(world, logs=logs), {(Code.RECORDS_LOST, str(head.key))}


def retention_removed_unlanded_records(data: st.DataObject, world: World) -> tuple[World, Found]:
    head = data.draw(st.sampled_from(world.chains))[-1]
    where = head.key.topic_partition
    start = max(head.to_offset, getattr(world.committed.get(where), "offset", 0)) + 1
    logs = {**world.logs, where: attrs.evolve(world.logs[where], start=start, end=start + 5)}
    return attrs.evolve(world, logs=logs), {(Code.RECORDS_LOST, str(head.key))}


DEFECTS: list[Break] = [
    a_row_is_missing,
    a_row_is_duplicated,
    a_row_replaces_another,
    a_row_of_another_writer,
    a_record_has_no_outcome,
    a_row_without_a_record,
    a_row_after_the_head,
    a_row_before_the_chain,
    a_row_in_a_gap,
    a_row_of_another_partition,
    a_row_without_coordinates,
    a_duplicate_offset_before_the_remembered_links,
    a_link_is_missing,
    the_first_link_is_missing,
    a_link_starts_late,
    a_link_starts_early,
    a_duplicate_link_number,
    a_link_of_another_group,
    the_table_was_restored,
    the_table_was_restored_and_has_new_links,
    the_commit_was_moved,
    the_group_lands_elsewhere,
    the_topic_was_recreated,
    the_log_was_truncated,
    retention_removed_unlanded_records,
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_each_defect_is_found_at_its_place_alone(defect: Break, data: st.DataObject) -> None:
    world, expected = defect(data, data.draw(worlds()))
    findings = judge(world.facts())
    assert against_proof(world.facts()) == expected
    assert not is_proved(findings)
    assert all(
        finding.remedy for finding in findings if finding.prevents_proof and finding.code not in _SELF_EXPLAINING
    )
    assert all("\n" not in finding.text + finding.remedy for finding in findings)


_SELF_EXPLAINING = (Code.CHAIN_FOREIGN, Code.RECORDS_LOST)
"""Codes whose text, from the rule for the start offset, includes the remedy."""


@given(worlds(), st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_accepted_findings_are_shown_but_do_not_prevent_proof(world: World, data: st.DataObject) -> None:
    world, expected = a_row_is_missing(data, world)
    assert against_proof(world.facts(), (Code.ROWS_MISSING,)) == set()
    assert against_proof(world.facts(), (Code.ROWS_EXTRA,)) == expected
    assert {f.code for f in judge(world.facts(), (Code.ROWS_MISSING,)) if f.accepted} == {Code.ROWS_MISSING}


# -- cases that the strategies do not generate ---------------------------------------------------

KEY = ChainKey("warehouse", "orders", 3)
FIRST = Link(
    key=KEY, number=1, from_offset=5, to_offset=9, rows=4, attempt="a1", origin=Origin(group="billing"), leader_epoch=2
)
SECOND = attrs.evolve(FIRST, number=2, from_offset=9, to_offset=12, rows=3, attempt="a2")
SOUND = World(
    chains=((FIRST, SECOND),),
    rows=tuple(("orders", 3, offset) for offset in range(5, 12)),
    committed={KEY.topic_partition: CommittedOffset(12, CommitNote.of(SECOND).to_metadata())},
    logs={KEY.topic_partition: LogSpan(start=0, end=12)},
).facts()


def chain(**changes: object) -> Facts:
    return attrs.evolve(SOUND, chains=(attrs.evolve(SOUND.chains[0], **changes),))


def texts(facts: Facts) -> list[str]:
    return [f"{finding.code}: {finding.text}" for finding in judge(facts)]


def test_sound_table_has_no_findings() -> None:
    assert texts(SOUND) == []


def test_table_without_chains_is_not_proved() -> None:
    facts = Facts(table="parquet:/nowhere", forgets=False, chains=(), now=NOW)
    assert against_proof(facts) == {(Code.NO_CHAINS, "")}


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ((), "links 1 to 2 are missing"),
        ((FIRST,), "link 2 is missing"),
        ((FIRST, attrs.evolve(SECOND, attempt="b2")), "link 2 is not by attempt a2 any more"),
    ],
)
def test_head_that_is_not_among_the_links_is_link_missing(links: tuple[Link, ...], message: str) -> None:
    assert any(message in text for text in texts(chain(links=links)))
    assert (Code.LINK_MISSING, str(KEY)) in against_proof(chain(links=links))


def test_chain_without_links_is_link_missing() -> None:
    assert against_proof(chain(head=None, links=())) >= {(Code.LINK_MISSING, str(KEY))}


def test_unreadable_links_are_reported_with_the_reason() -> None:
    facts = attrs.evolve(chain(links=(), problem="0007.json is no manifest"), counts=None)
    assert against_proof(facts) == {(Code.LINKS_UNREADABLE, str(KEY))}
    assert "links-unreadable: 0007.json is no manifest" in texts(facts)


def test_unreadable_rows_prevent_proof() -> None:
    facts = attrs.evolve(SOUND, counts=None, unreadable="FileNotFoundError: part-7.parquet")
    assert against_proof(facts) == {(Code.ROWS_UNREADABLE, "")}


def test_uncounted_rows_leave_the_links_proved() -> None:
    facts = attrs.evolve(SOUND, counts=None, uncounted="there is no column 'offset'")
    assert against_proof(facts) == set()
    assert texts(facts) == [
        "rows-uncounted: the rows were not counted, so only the links are proved: there is no column 'offset'"
    ]


def test_link_without_a_number_of_rows_does_not_prevent_proof() -> None:
    facts = chain(links=(FIRST, attrs.evolve(SECOND, rows=-1)))
    assert against_proof(facts) == set()
    assert texts(facts) == [
        "rows-uncounted: link 2, offsets [9, 12): its commit recorded no number of rows, there are 3"
    ]


def test_offsets_of_overlapping_sinks_are_not_counted() -> None:
    other = ChainKey("lake", "orders", 3)
    overlapping = ChainFacts(key=other, head=None, links=(attrs.evolve(FIRST, key=other),))
    facts = attrs.evolve(SOUND, chains=(*SOUND.chains, overlapping), cluster=None)
    assert against_proof(facts) == set()
    assert (
        "rows-uncounted: the rows were not counted, so only the links are proved: the sinks 'lake', 'warehouse' have "
        in (texts(facts)[0])
    )
    after = attrs.evolve(SECOND, key=other, number=1, from_offset=12, to_offset=14, rows=2)
    world = World(
        chains=((FIRST, SECOND), (after,)),
        rows=tuple(("orders", 3, offset) for offset in range(5, 14)),
        committed={},
        logs={KEY.topic_partition: LogSpan(start=0, end=14)},
    )
    assert against_proof(world.facts()) == set()
    assert against_proof(plus(world, ("orders", 3, 14)).facts()) == {(Code.ROWS_OUTSIDE, str(other))}


def test_links_appended_meanwhile_explain_later_rows() -> None:
    third = attrs.evolve(SECOND, number=3, from_offset=12, to_offset=14, attempt="a3", rows=2)
    world = World(
        chains=((FIRST, SECOND),),
        rows=tuple(("orders", 3, offset) for offset in range(5, 14)),
        committed={},
        logs={KEY.topic_partition: LogSpan(start=0, end=14)},
    )
    facts = world.facts()
    assert against_proof(facts) == {(Code.ROWS_OUTSIDE, str(KEY))}
    facts = attrs.evolve(facts, chains=(attrs.evolve(facts.chains[0], later=(third,)),))
    assert against_proof(facts) == set()
    assert "landed-meanwhile: link 3 was appended meanwhile: their rows were not counted" in texts(facts)
    beyond = attrs.evolve(plus(world, ("orders", 3, 14)).facts(), chains=facts.chains)
    assert against_proof(beyond) == {(Code.ROWS_OUTSIDE, str(KEY))}


def test_chain_started_meanwhile_explains_its_rows() -> None:
    key = ChainKey("warehouse", "orders", 4)
    first = attrs.evolve(FIRST, key=key)
    world = World(
        chains=((FIRST, SECOND),),
        rows=(*(("orders", 3, offset) for offset in range(5, 12)), ("orders", 4, 5)),
        committed={},
        logs={},
    )
    facts = attrs.evolve(world.facts(), cluster=None)
    assert against_proof(facts) == {(Code.ROWS_OUTSIDE, "orders-4")}
    started = ChainFacts(key=key, head=None, later=(first,))
    assert against_proof(attrs.evolve(facts, chains=(*facts.chains, started))) == set()


def test_unknown_cluster_facts_prevent_proof() -> None:
    cluster = ClusterFacts(
        groups={"billing": GroupFacts(problem="no broker answers")},
        logs={KEY.topic_partition: LogSpan(problem="the partition has no leader")},
    )
    facts = attrs.evolve(SOUND, cluster=cluster)
    assert against_proof(facts) == {(Code.CLUSTER_SILENT, ""), (Code.CLUSTER_SILENT, str(KEY))}
    assert "cluster-silent: the committed offsets of group 'billing' are unknown: no broker answers" in texts(facts)


def test_rewound_table_is_found_without_the_log() -> None:
    cluster = ClusterFacts(
        groups={"billing": GroupFacts(committed={KEY.topic_partition: CommittedOffset(12)})},
        logs={},
    )
    facts = attrs.evolve(chain(head=FIRST, links=(FIRST,)), cluster=cluster, counts=None)
    assert (Code.COMMIT_MOVED, str(KEY)) in against_proof(facts)


def test_lag_gaps_forgotten_links_and_leftovers_are_notes() -> None:
    gap = attrs.evolve(SECOND, kind=Kind.GAP, rows=0, reason="retention")
    facts = attrs.evolve(
        chain(links=(attrs.evolve(FIRST, number=8), attrs.evolve(gap, number=9)), head=attrs.evolve(gap, number=9)),
        forgets=True,
        counts=None,
        cluster=ClusterFacts(
            groups={"billing": GroupFacts(committed={KEY.topic_partition: CommittedOffset(9)})},
            logs={KEY.topic_partition: LogSpan(start=0, end=20)},
        ),
        leftovers=(
            Leftover(name="a", size_bytes=1_000, changed=NOW - 7200, what="a staged file"),
            Leftover(name="b", size_bytes=234, changed=NOW, what="a staged file"),
        ),
    )
    assert against_proof(facts) == set()
    assert texts(facts) == [
        "links-forgotten: the table remembers links from 8 on: offsets before 5 are not proved",
        "gap: link 9 leaves out offsets [9, 12): retention",
        "commit-behind: the commit at 9 is 3 offsets behind the head's end, where the next owner starts",
        "lag: 8 offsets of the log have not landed yet",
        "leftovers: 2 leftovers of 1,234 bytes, the oldest 2.0 h old: files of writes that lost, failed, or are under "
        "way",
    ]


def test_every_code_has_a_severity() -> None:
    assert set(SEVERITY) == set(Code)
    assert set(SEVERITY.values()) == set(Severity)


# -- records, rows and dead letters --------------------------------------------------------------

PLAIN = attrs.evolve(FIRST, records=4)
"""A link of four records with four rows."""


def judged(link: Link, count: Count | None) -> Found:
    chain = ChainFacts(key=KEY, head=link, links=(link,))
    (span, *_) = spans_of([chain], forgets=False).spans
    counts = Counts({span: count}) if count else None
    uncounted = "" if count else "--links-only"
    return against_proof(attrs.evolve(SOUND, chains=(chain,), counts=counts, uncounted=uncounted, cluster=None))


def test_duplicate_does_not_hide_a_lost_record() -> None:
    where = str(KEY)
    assert judged(PLAIN, Count(4, 3, 5, 8)) == {(Code.ROWS_MISSING, where), (Code.OFFSETS_REPEATED, where)}
    assert judged(attrs.evolve(PLAIN, is_transformed=True), Count(4, 3, 5, 8)) == {(Code.OFFSETS_REPEATED, where)}


def test_loss_recorded_in_a_link_is_found_without_a_count() -> None:
    assert judged(attrs.evolve(PLAIN, rows=3), None) == {(Code.RECORDS_UNACCOUNTED, str(KEY))}
    assert judged(attrs.evolve(PLAIN, rows=3, dead_letters=1), None) == set()
    assert judged(attrs.evolve(PLAIN, rows=3, is_transformed=True), None) == set()


def test_deleted_rows_of_an_older_link_are_missing() -> None:
    unknown = attrs.evolve(PLAIN, rows=-1)
    assert judged(unknown, Count(4, 4, 5, 8)) == set()
    assert judged(unknown, Count(3, 3, 5, 8)) == {(Code.ROWS_MISSING, str(KEY))}


def test_unknown_offsets_and_dead_letters_are_notes() -> None:
    old, letters = attrs.evolve(FIRST, rows=3), attrs.evolve(PLAIN, rows=3, dead_letters=1)
    for link, code in ((old, Code.OFFSETS_UNKNOWN), (letters, Code.DEAD_LETTERS)):
        chain = ChainFacts(key=KEY, head=link, links=(link,))
        (span, *_) = spans_of([chain], forgets=False).spans
        facts = attrs.evolve(SOUND, chains=(chain,), counts=Counts({span: Count(3, 3, 5, 7)}), cluster=None)
        assert code in {finding.code for finding in judge(facts)}
        assert against_proof(facts) == set()
