"""Claims of docs/audit.md hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs

from sarameya import CommittedOffset
from sarameya_handlers import ParquetTable
from sarameya_handlers.audit.facts import ChainFacts, ClusterFacts, Count, Counts, Facts, GroupFacts, LogSpan
from sarameya_handlers.audit.rewind_plan import Chains, plan_rewind, rewind_document, rewind_text
from sarameya_handlers.audit.sweep_plan import Sweep, plan_sweep, sweep_document
from sarameya_handlers.audit.verify.findings import SEVERITY
from sarameya_handlers.audit.verify.report import report_document, report_text
from sarameya_handlers.audit.verify.spans import spans_of
from sarameya_handlers.audit.verify.verdict import judge
from sarameya_handlers.landing.directory.data_files import Unpublished
from sarameya_handlers.landing.links import ChainKey, CommitNote, Kind, Link
from sarameya_handlers.spark.tables.table import Leftover
from tests.docs.pages import blocks, page
from tests.handlers.audit.fake_table import links_of

PAGE = page("audit")
ONE, TWO = ChainKey("sarameya", "orders", 0), ChainKey("sarameya", "orders", 1)


def chain_of(key: ChainKey, *ends: int) -> ChainFacts:
    links = tuple(links_of(key, *ends))
    return ChainFacts(key=key, head=links[-1], links=links)


def with_dead_letters(chain: ChainFacts) -> ChainFacts:
    """Return the chain with three dead letters in its first link, and two offsets without a record."""
    first, *others = chain.links
    first = attrs.evolve(first, rows=first.length - 5, records=first.length - 2, dead_letters=3)
    return attrs.evolve(chain, links=(first, *others))


def example() -> Facts:
    chains = (
        with_dead_letters(chain_of(ONE, *range(75, 901, 75))),
        chain_of(TWO, 60, 120, 180, 240, 300, 400, 480, 560, 640, 720, 870),
    )
    counts = {
        span: Count(missing, missing, span.start, span.stop - 1)
        for span in spans_of(chains, forgets=False).spans
        if span.number > 0
        for missing in [span.stop - span.start - {(0, 1): 5, (1, 7): 2}.get((span.partition, span.number), 0)]
    }
    commits = {
        chain.key.topic_partition: CommittedOffset(
            chain.links[-1].to_offset, CommitNote.of(chain.links[-1]).to_metadata()
        )
        for chain in chains
    }
    return Facts(
        table="parquet:/data/orders",
        forgets=False,
        chains=chains,
        counts=Counts(counts),
        cluster=ClusterFacts(
            groups={"billing": GroupFacts(committed=commits)},
            logs={ONE.topic_partition: LogSpan(start=0, end=950), TWO.topic_partition: LogSpan(start=0, end=870)},
        ),
        now=0.0,
    )


def links_of_rewind() -> list[Link]:
    return links_of(ONE, 78, 156, 234, 312, 390, 468, 546, 624, 700, 780, 840, 900)


def moves() -> Any:
    links = links_of_rewind()
    commit = CommittedOffset(900, CommitNote.of(links[-1]).to_metadata())
    chains = Chains(now={ONE: links[-1]}, then={ONE: links[8]})
    groups = {"billing": GroupFacts(committed={ONE.topic_partition: commit})}
    return plan_rewind(chains, groups, {ONE.topic_partition: LogSpan(start=0, end=950)})


def test_examples_equal_the_output() -> None:
    facts = example()
    verify, rewind = blocks(PAGE, "")
    assert verify == report_text(facts, judge(facts)) + "\n"
    assert rewind == rewind_text("delta:/data/orders", "version 41", moves(), {}, executed=False) + "\n"


def test_every_finding_is_listed_with_its_severity() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (wrong|unproved|note) \| .+ \|$", PAGE, re.MULTILINE)
    assert rows == [(str(code), str(severity)) for code, severity in SEVERITY.items()]


def listed_fields(section: str) -> set[str]:
    """Return the fields in the tables of a section."""
    _, _, text = PAGE.partition(f"\n`{section}`:\n")
    rows = re.match(r"\n(?:\|.*\n)+", text)
    assert rows is not None
    return {name.removesuffix("[]") for name in re.findall(r"`([a-z_]+(?:\[\])?)`", rows[0])}


def fields(document: Any) -> set[str]:
    if isinstance(document, list):
        return set().union(*map(fields, document))
    if isinstance(document, dict):
        return {*document}.union(*map(fields, document.values()))
    return set()


def test_every_document_field_is_listed() -> None:
    facts = example()
    gap = Link(
        key=TWO, number=12, from_offset=870, to_offset=871, attempt="x", origin=facts.chains[1].links[0].origin,
        kind=Kind.GAP, reason="retention",
    )  # fmt: skip
    left = Leftover(name="a", size_bytes=1, changed=0.0, what="x")
    chains = (facts.chains[0], ChainFacts(key=TWO, head=gap, links=(*facts.chains[1].links, gap)))
    facts = Facts(
        table="x", forgets=False, chains=chains, cluster=facts.cluster, leftovers=(left,), now=0.0, counts=facts.counts
    )
    assert fields(report_document(facts, judge(facts))) == listed_fields("verify")
    sweep = sweep_document(
        Sweep(
            table="x",
            older_than=0.0,
            is_executed=False,
            unpublished=[Unpublished("link 7", 1)],
            restate=[gap],
            plan=plan_sweep([left], 0.0, 1.0),
        )
    )
    assert fields(sweep) - {"name", "size_bytes", "changed", "others_may_take"} == listed_fields("sweep")
    assert fields(rewind_document("x", "y", moves(), executed=False)) == listed_fields("rewind")


def test_program_runs(tmp_path: Path) -> None:
    [program] = blocks(PAGE, "python")
    table = ParquetTable(tmp_path / "orders")
    assert "/data/orders" in program
    names: dict[str, Any] = {}
    try:
        exec(program.replace("/data/orders", str(table.path)), names)
    except AssertionError:  # a table without chains is not proved
        assert [str(finding.code) for finding in names["findings"]] == ["no-chains"]
