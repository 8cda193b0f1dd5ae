from __future__ import annotations

import attrs

from sarameya_handlers.audit.facts import ChainFacts, Facts
from sarameya_handlers.audit.verify.findings import Code, Finding
from sarameya_handlers.audit.verify.report import finding_line, report_document, report_text
from sarameya_handlers.audit.verify.verdict import judge
from sarameya_handlers.landing.links import ChainKey, Kind
from sarameya_handlers.spark.tables.table import Leftover
from tests.handlers.audit.fake_table import links_of
from tests.handlers.audit.kit import NOW

KEY = ChainKey("warehouse", "orders", 0)
LINKS = links_of(KEY, *range(1, 61))


def leftover(name: str, hours: int, size: int = 1_000) -> Leftover:
    return Leftover(name=name, size_bytes=size, changed=NOW - 3_600 * hours, what="a staged file")


def facts_of(*links: object, key: ChainKey = KEY) -> Facts:
    chain = ChainFacts(key=key, head=links[-1], links=tuple(links))  # type: ignore[arg-type]
    return Facts(table="fake:orders", forgets=False, chains=(chain,), now=NOW)


def test_findings_are_sorted_and_limited_to_twenty_per_kind() -> None:
    gaps = [attrs.evolve(link, kind=Kind.GAP, rows=0, reason="retention") for link in LINKS]
    facts = facts_of(*gaps[:30], *gaps[31:])
    findings = judge(facts)
    assert len(findings) == 60
    lines = report_text(facts, findings).splitlines()[5:]
    assert lines[0].startswith("wrong     link-missing: warehouse/orders-0: link 31 is missing; restore the table")
    assert lines[1] == "note      gap: warehouse/orders-0: link 1 leaves out offset 0: retention"
    assert lines[21:] == ["note      gap: and 39 more (--json has them all)", "", "NOT PROVED: 1 wrong"]
    assert len(report_document(facts, findings)["findings"]) == 60


def test_document_lists_gaps_with_their_reasons() -> None:
    gap = attrs.evolve(LINKS[1], kind=Kind.GAP, rows=0, reason="retention")
    facts = facts_of(LINKS[0], gap)
    [chain] = report_document(facts, judge(facts))["chains"]
    assert chain["gaps"] == [{"number": 2, "from_offset": 1, "to_offset": 2, "reason": "retention"}]


def test_terminal_control_characters_are_not_printed() -> None:
    key = ChainKey("ware\x1b[2Jhouse", "orders", 0)
    facts = facts_of(*links_of(key, 4), key=key)
    assert "\x1b" not in report_text(facts, judge(facts))
    assert "\x1b" not in finding_line(Finding(code=Code.GAP, where="\x1b[2J", text="x"))


def test_unrecorded_number_of_rows_is_a_dash() -> None:
    facts = facts_of(LINKS[0], attrs.evolve(LINKS[1], rows=-1))
    [chain] = report_document(facts, judge(facts))["chains"]
    assert chain["rows"] is None
    assert report_text(facts, judge(facts)).splitlines()[3].split()[7:] == ["-"] * 5


def test_leftovers_are_listed_oldest_first_before_the_verdict() -> None:
    facts = attrs.evolve(facts_of(LINKS[0]), leftovers=(leftover("b\x1b.parquet", 2, 70), leftover("a.parquet", 3)))
    lines = report_text(facts, judge(facts)).splitlines()
    assert lines[5].startswith("note      leftovers: 2 leftovers of 1,070 bytes, the oldest 3.0 h old: ")
    assert lines[6:] == [
        "",
        "LEFTOVER       BYTES  AGE    WHAT",
        "a.parquet       1000  3.0 h  a staged file",
        r"b\x1b.parquet     70  2.0 h  a staged file",
        "",
        "PROVED: 1 chain, 1 link, rows not counted",
    ]


def test_leftovers_beyond_the_first_few_are_counted() -> None:
    facts = facts_of(LINKS[0])
    for count, more in ((5, []), (6, ["and 1 more: sarameya sweep lists them"])):
        facts = attrs.evolve(facts, leftovers=tuple(leftover(f"{n}.parquet", n) for n in range(1, count + 1)))
        lines = report_text(facts, judge(facts)).splitlines()
        assert [line.split()[0] for line in lines[8:13]] == [f"{n}.parquet" for n in range(count, count - 5, -1)]
        assert lines[13:-2] == more
