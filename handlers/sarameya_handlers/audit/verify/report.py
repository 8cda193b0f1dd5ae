"""Output of `sarameya verify`: chains, findings and the oldest leftovers as text, or all of it as JSON. Pure.

`docs/audit.md` describes the fields of the JSON document, which do not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from sarameya.service import counted, printable, table
from sarameya_handlers.audit.facts import ChainFacts, Facts
from sarameya_handlers.audit.verify.account import Account, accounts_of
from sarameya_handlers.audit.verify.findings import Code, Finding, Severity
from sarameya_handlers.audit.verify.verdict import is_proved
from sarameya_handlers.audit.wording import age, amount
from sarameya_handlers.landing.links import UNKNOWN_COUNT, CommitNote, Kind
from sarameya_handlers.spark.tables.table import Leftover

_FINDINGS_SHOWN = 20
"""Maximum number of printed findings of one code. The JSON document has all of them."""
_LEFTOVERS_SHOWN = 5
"""Maximum number of printed leftovers. `sarameya sweep` and the JSON document have all of them."""

_HEADER = (
    "SINK", "TOPIC", "PARTITION", "GROUP", "LINKS", "FROM", "TO", "ROWS", "COUNTED", "COMMITTED", "LOG-END", "LAG",
)  # fmt: skip
_ACCOUNT_HEADER = (
    "SINK", "TOPIC", "PARTITION", "OFFSETS", "WITH-ROWS", "DEAD-LETTERS", "DROPPED", "MISSING", "GAPS",
    "WITHOUT-RECORD", "UNKNOWN",
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
    account: Account | None
    committed: int | None
    note: CommitNote | None
    log_start: int | None
    log_end: int | None

    @property
    def lag(self) -> int | None:
        """Number of offsets that have not landed yet."""
        return None if self.log_end is None or self.stop is None else self.log_end - self.stop


def chain_reports(facts: Facts) -> list[ChainReport]:
    """Return the figures of each chain."""
    accounts = {chain.key: account for chain, account in accounts_of(facts)}
    return [_report(chain, accounts.get(chain.key), facts) for chain in facts.chains]


def _report(chain: ChainFacts, account: Account | None, facts: Facts) -> ChainReport:
    counts = facts.counts if account else None  # without an account the count is incomplete
    cluster, last = facts.cluster, chain.last
    links = (*chain.links, *chain.later)  # `later` were appended while rows were counted
    recorded = [link.rows for link in links]
    group = last.origin.group if last else None
    partition = chain.key.topic_partition
    committed = log = None
    if cluster is not None:
        log = cluster.logs.get(partition)
        if group is not None and group in cluster.groups:
            committed = cluster.groups[group].committed.get(partition)
    return ChainReport(
        chain=chain,
        group=group,
        links=len(links),
        start=links[0].from_offset if links else None,
        stop=last.to_offset if last else None,
        rows=None if UNKNOWN_COUNT in recorded else sum(recorded),
        counted=sum(counts.of(link).rows for link in chain.links) if counts else None,
        account=account,
        committed=committed.offset if committed else None,
        note=CommitNote.from_metadata(committed.metadata) if committed else None,
        log_start=log.start if log else None,
        log_end=log.end if log else None,
    )


def report_text(facts: Facts, findings: Sequence[Finding]) -> str:
    """Return the text for a person: chains, findings, the oldest leftovers, and the verdict in the last line."""
    parts = [f"TABLE {printable(facts.table)}"]
    if facts.chains:
        reports = chain_reports(facts)
        parts.append(table(_HEADER, [_row(report) for report in reports]))
        if accounts := [row for report in reports if (row := _account_row(report))]:
            parts.append(table(_ACCOUNT_HEADER, accounts))
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


def _account_row(report: ChainReport) -> tuple[str | int, ...] | None:
    """Return what became of the chain's offsets; None if all of them have a row, or if that is not known."""
    key, account = report.chain.key, report.account
    if account is None or not any(attrs.astuple(account)[1:]):
        return None
    return (key.sink, key.topic, key.partition, account.offsets, *attrs.astuple(account))


def _lines(findings: Sequence[Finding]) -> list[str]:
    """Return the findings, wrong ones first."""
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
    """Return a line such as `wrong     link-missing: landing/orders-3: link 7 is missing; REMEDY`."""
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
        "chains": [_chain_document(report) for report in chain_reports(facts)],
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
        "offsets": {"total": report.account.offsets, **attrs.asdict(report.account)} if report.account else None,
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
