"""Output of `sarameya verify`: chains, findings and the oldest leftovers as text, or all of it as JSON. Pure.

`docs/audit.md` describes the fields of the JSON document, which do not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from sarameya.service import counted, printable, table
from sarameya_handlers.audit.facts import FORGOTTEN, ChainFacts, Facts
from sarameya_handlers.audit.verify.findings import Code, Finding, Severity
from sarameya_handlers.audit.verify.verdict import is_proved
from sarameya_handlers.audit.wording import age, amount
from sarameya_handlers.landing.links import CommitNote, Kind
from sarameya_handlers.spark.tables.table import Leftover

_FINDINGS_SHOWN = 20
"""Maximum number of printed findings of one code. The JSON document has all of them."""
_LEFTOVERS_SHOWN = 5
"""Maximum number of printed leftovers. `sarameya sweep` and the JSON document have all of them."""

_HEADER = (
    "SINK", "TOPIC", "PARTITION", "GROUP", "LINKS", "FROM", "TO", "ROWS", "COUNTED", "COMMITTED", "LOG-END", "LAG",
)  # fmt: skip


@attrs.frozen(slots=True)
class ChainReport:
    """Figures of a chain. Unknown figures are None."""

    chain: ChainFacts
    group: str | None
    links: int
    start: int | None
    stop: int | None
    rows: int | None
    """Number of rows according to the chain's commits."""
    counted: int | None
    committed: int | None
    note: CommitNote | None
    log_start: int | None
    log_end: int | None

    @property
    def lag(self) -> int | None:
        """Number of offsets that have not landed yet."""
        return None if self.log_end is None or self.stop is None else self.log_end - self.stop


def chain_report(chain: ChainFacts, facts: Facts) -> ChainReport:
    """Return the figures of a chain."""
    links, last = (*chain.links, *chain.later), chain.last
    recorded = [link.rows for link in links]
    group = last.origin.group if last else None
    partition = chain.key.topic_partition
    committed = log = None
    if facts.cluster is not None:
        log = facts.cluster.logs.get(partition)
        if group is not None and group in facts.cluster.groups:
            committed = facts.cluster.groups[group].committed.get(partition)
    return ChainReport(
        chain=chain,
        group=group,
        links=len(links),
        start=links[0].from_offset if links else None,
        stop=last.to_offset if last else None,
        rows=None if -1 in recorded else sum(recorded),
        counted=_counted(chain, facts),
        committed=committed.offset if committed else None,
        note=CommitNote.from_metadata(committed.metadata) if committed else None,
        log_start=log.start if log else None,
        log_end=log.end if log else None,
    )


def _counted(chain: ChainFacts, facts: Facts) -> int | None:
    """Return the counted rows of the chain's links, without those appended during the count. None without a count."""
    if facts.counts is None:
        return None
    key = (chain.key.sink, chain.key.topic, chain.key.partition)
    return sum(
        count.rows
        for span, count in facts.counts.spans.items()
        if (span.sink, span.topic, span.partition) == key and span.number > FORGOTTEN
    )


def report_text(facts: Facts, findings: Sequence[Finding]) -> str:
    """Return the text for a person: chains, findings, the oldest leftovers, and the verdict in the last line."""
    parts = [f"TABLE {printable(facts.table)}"]
    if facts.chains:
        parts.append(table(_HEADER, [_row(chain_report(chain, facts)) for chain in facts.chains]))
    if lines := list(_lines(findings)):
        parts.append("\n".join(lines))
    if facts.leftovers:
        parts.append(_leftovers_text(facts.leftovers, facts.now))
    parts.append(verdict_text(facts, findings))
    return "\n\n".join(parts)


def _row(report: ChainReport) -> tuple[str | int | None, ...]:
    key = report.chain.key
    return (
        key.sink,
        key.topic,
        key.partition,
        report.group,
        report.links,
        report.start,
        report.stop,
        report.rows,
        report.counted,
        report.committed,
        report.log_end,
        report.lag,
    )


def _lines(findings: Sequence[Finding]) -> list[str]:
    """Return the findings, wrong ones first. The remedy follows the last semicolon."""
    lines: list[str] = []
    shown: Counter[tuple[Code, bool]] = Counter()
    for severity in Severity:
        for finding in findings:
            if finding.severity is not severity:
                continue
            shown[finding.code, finding.accepted] += 1
            if shown[finding.code, finding.accepted] <= _FINDINGS_SHOWN:
                lines.append(finding_line(finding))
        lines += [
            f"{severity:8}  {code}: and {number - _FINDINGS_SHOWN} more (--json has them all)"
            for (code, _), number in shown.items()
            if number > _FINDINGS_SHOWN and Finding(code=code, where="", text="").severity is severity
        ]
    return lines


def finding_line(finding: Finding) -> str:
    """Return a line such as `wrong     link-missing: landing/orders-3: link 7 is missing; restore ...`."""
    label = "accepted" if finding.accepted and finding.severity is not Severity.NOTE else finding.severity
    text = ": ".join(part for part in (finding.where, finding.text) if part)
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return printable(f"{label:8}  {finding.code}: {text}{remedy}")


def _leftovers_text(leftovers: Sequence[Leftover], now: float) -> str:
    oldest = sorted(leftovers, key=lambda leftover: (leftover.changed, leftover.name))[:_LEFTOVERS_SHOWN]
    rows = [(leftover.name, leftover.size_bytes, age(now - leftover.changed), leftover.what) for leftover in oldest]
    more = len(leftovers) - len(oldest)
    footer = [f"and {more:,} more: sarameya sweep lists them"] if more else []
    return "\n".join([table(("LEFTOVER", "BYTES", "AGE", "WHAT"), rows), *footer])


def verdict_text(facts: Facts, findings: Sequence[Finding]) -> str:
    """Return the verdict: the last line of the text."""
    tally = Counter(finding.severity for finding in findings if finding.prevents_proof)
    if not is_proved(findings):
        sums = [f"{tally[severity]} {severity}" for severity in (Severity.WRONG, Severity.UNPROVED) if tally[severity]]
        return f"NOT PROVED: {', '.join(sums)}"
    links = sum(len(chain.links) + len(chain.later) for chain in facts.chains)
    proved = f"PROVED: {counted(len(facts.chains), 'chain')}, {amount(links, 'link')}"
    rows = "rows not counted" if facts.counts is None else f"{amount(facts.counts.rows, 'row')} counted"
    accepted = sum(finding.accepted and finding.severity is not Severity.NOTE for finding in findings)
    return f"{proved}, {rows}" + (f", except for {counted(accepted, 'finding')} that you accept" if accepted else "")


# -- for programs ------------------------------------------------------------------------------------


def report_document(facts: Facts, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the JSON document for programs."""
    return {
        "table": facts.table,
        "proved": is_proved(findings),
        "at": facts.now,
        "rows": facts.counts.rows if facts.counts is not None else None,
        "chains": [_chain_document(chain_report(chain, facts)) for chain in facts.chains],
        "findings": [
            {
                "severity": str(finding.severity),
                "code": str(finding.code),
                "where": finding.where,
                "text": finding.text,
                "remedy": finding.remedy or None,
                "accepted": finding.accepted,
            }
            for finding in findings
        ],
        "leftovers": [attrs.asdict(leftover) for leftover in facts.leftovers],
    }


def _chain_document(report: ChainReport) -> dict[str, Any]:
    chain, last = report.chain, report.chain.last
    return {
        "sink": chain.key.sink,
        "topic": chain.key.topic,
        "partition": chain.key.partition,
        "group": report.group,
        "topic_id": last.origin.topic_id or None if last else None,
        "links": report.links,
        "from_offset": report.start,
        "to_offset": report.stop,
        "head": {"number": last.number, "attempt": last.attempt, "to_offset": last.to_offset} if last else None,
        "rows": report.rows,
        "rows_counted": report.counted,
        "gaps": [
            {"number": link.number, "from_offset": link.from_offset, "to_offset": link.to_offset, "reason": link.reason}
            for link in (*chain.links, *chain.later)
            if link.kind is Kind.GAP
        ],
        "committed_offset": report.committed,
        "committed_link": {"number": report.note.number, "attempt": report.note.attempt} if report.note else None,
        "log_start_offset": report.log_start,
        "log_end_offset": report.log_end,
        "lag": report.lag,
    }
