"""Judges the facts: everything that is wrong, cannot be proved, or should be known. Pure: no Spark, no clock.

The links prove that ranges are contiguous and numbers unique. Rows, if they identify their records, prove that each
range holds what its commit recorded. The start rule itself proves that the next owner of each partition can start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

import attrs

from sarameya_handlers.audit.facts import ChainFacts, Facts
from sarameya_handlers.audit.verify.account import accounts_of
from sarameya_handlers.audit.verify.findings import Code, Finding
from sarameya_handlers.audit.verify.verdict_cluster import cluster_findings
from sarameya_handlers.audit.verify.verdict_rows import row_findings
from sarameya_handlers.audit.wording import age, amount, offsets, place_of, records_of
from sarameya_handlers.landing.links import UNKNOWN_COUNT, Kind, Link

_RESTORE = "restore the table to a version before this change, and rewind its group"


def judge(facts: Facts, accept: Collection[Code] = ()) -> list[Finding]:
    """Return all findings: of links, rows, the cluster, and leftovers. Codes in `accept` are marked as accepted."""
    rows = [*row_findings(facts), *_offsets(facts)]
    found = [*_links(facts), *rows, *cluster_findings(facts), *_unpublished(facts), *_leftovers(facts)]
    return [attrs.evolve(finding, accepted=finding.code in accept) for finding in found]


def is_proved(findings: Collection[Finding]) -> bool:
    """Return whether nothing is wrong, and everything unproved is accepted."""
    return not any(finding.prevents_proof for finding in findings)


def _links(facts: Facts) -> Iterator[Finding]:
    if not facts.chains:
        yield Finding(
            code=Code.NO_CHAINS,
            where="",
            text=f"{facts.table} has no chain of links: no sink has landed in it",
            remedy="check that it is named as in its sink's option `table`",
        )
    for chain in facts.chains:
        yield from _chain(chain, facts.forgets)


def _chain(chain: ChainFacts, forgets: bool) -> Iterator[Finding]:
    where = str(chain.key)
    if chain.problem:
        remedy = f"make the table readable again, or {_RESTORE}"
        yield Finding(code=Code.LINKS_UNREADABLE, where=where, text=chain.problem, remedy=remedy)
    links = (*chain.links, *chain.later)
    if links:
        yield from _beginning(where, links[0], forgets)
    for previous, link in pairwise(links):
        yield from _pair(where, previous, link)
    if not chain.problem:
        yield from _end(where, chain)
    for link in links:
        yield from _accounted(where, link)
        if link.kind is Kind.GAP:
            text = f"link {link.number} leaves out {offsets(link.from_offset, link.to_offset)}: {link.reason}"
            yield Finding(code=Code.GAP, where=where, text=text)
    if chain.later:
        first, last = chain.later[0], chain.later[-1]
        numbers = f"link {first.number} was" if first is last else f"links {first.number} to {last.number} were"
        yield Finding(
            code=Code.LANDED_MEANWHILE, where=where, text=f"{numbers} appended meanwhile: their rows were not counted"
        )


def _beginning(where: str, first: Link, forgets: bool) -> Iterator[Finding]:
    if first.number == 1:
        return
    if forgets:
        text = f"the table remembers links from {first.number} on: offsets before {first.from_offset} are not proved"
        yield Finding(code=Code.LINKS_FORGOTTEN, where=where, text=text)
    else:
        yield _missing(where, 1, first.number - 1)


def _pair(where: str, previous: Link, link: Link) -> Iterator[Finding]:
    if link.number > previous.number + 1:
        yield _missing(where, previous.number + 1, link.number - 1)
    elif link.number <= previous.number:
        text = f"link {link.number} follows link {previous.number}: numbers must rise by one"
        yield Finding(code=Code.RANGE_BROKEN, where=where, text=text, remedy=_RESTORE)
    elif link.from_offset != previous.to_offset:
        what = "left out" if link.from_offset > previous.to_offset else "covered twice"
        between = offsets(*sorted((link.from_offset, previous.to_offset)))
        text = f"link {link.number} begins at {link.from_offset}, link {previous.number} ends at {previous.to_offset}: "
        yield Finding(code=Code.RANGE_BROKEN, where=where, text=f"{text}{between} are {what}", remedy=_RESTORE)
    if link.origin.is_other(previous.origin) or link.key != previous.key:
        text = f"link {link.number} is of {_origin(link)}, link {previous.number} of {_origin(previous)}"
        remedy = "use a separate sink for each group, and for a topic that was recreated"
        yield Finding(code=Code.ORIGIN_CHANGED, where=where, text=text, remedy=remedy)


def _accounted(where: str, link: Link) -> Iterator[Finding]:
    """Compare the rows that a link recorded with its records. Needs no count of rows."""
    if link.expected_rows is not None and link.rows not in (UNKNOWN_COUNT, link.expected_rows):
        text = f"{place_of(link)}: {amount(link.rows, 'row')} landed for {records_of(link)}, without a transform"
        remedy = "restore the table from before this link, and rewind its group; report it as a defect"
        yield Finding(code=Code.RECORDS_UNACCOUNTED, where=where, text=text, remedy=remedy)


def _offsets(facts: Facts) -> Iterator[Finding]:
    """Name what is not known about offsets without a row."""
    for chain, account in accounts_of(facts):
        if account.unknown:
            text = f"{amount(account.unknown, 'offset')} without a row, of links that recorded no number of records"
            yield Finding(code=Code.OFFSETS_UNKNOWN, where=str(chain.key), text=text)
        if account.dead_letters:
            text = f"{amount(account.dead_letters, 'record')} became dead letters; whether they still exist is unknown"
            yield Finding(code=Code.DEAD_LETTERS, where=str(chain.key), text=text)


def _end(where: str, chain: ChainFacts) -> Iterator[Finding]:
    """Check that the head, according to the table, is among the links."""
    head, known = chain.head, (*chain.links, *chain.later)
    if head is None:
        if not known:
            text = "the chain is there, but has no link"
            yield Finding(code=Code.LINK_MISSING, where=where, text=text, remedy=_RESTORE)
        return
    if not known or known[-1].number < head.number:
        yield _missing(where, known[-1].number + 1 if known else 1, head.number)
    elif all((link.number, link.attempt) != (head.number, head.attempt) for link in known):
        text = f"link {head.number} is not by attempt {head.attempt} any more: the table was changed meanwhile"
        yield Finding(code=Code.LINK_MISSING, where=where, text=text, remedy="verify it again while nobody restores it")


def _missing(where: str, first: int, last: int) -> Finding:
    text = f"link {first} is missing" if last <= first else f"links {first} to {last} are missing"
    return Finding(code=Code.LINK_MISSING, where=where, text=text, remedy=_RESTORE)


def _origin(link: Link) -> str:
    topic_id = f" with the id {link.origin.topic_id}" if link.origin.topic_id else ""
    return f"group {link.origin.group!r}, topic {link.key.topic!r}{topic_id}"


def _unpublished(facts: Facts) -> Iterator[Finding]:
    for unpublished in facts.unpublished:
        yield Finding(
            code=Code.ROWS_UNPUBLISHED,
            where="",
            text=f"{unpublished.what} is not finished: plain readers of the directory miss up to "
            f"{amount(unpublished.rows, 'row')}",
            remedy=f"start a sink that lands in it, or run sarameya sweep {facts.table} --older-than 1d --execute",
        )


def _leftovers(facts: Facts) -> Iterator[Finding]:
    if facts.unlisted:
        yield Finding(code=Code.LEFTOVERS, where="", text=f"leftovers cannot be listed: {facts.unlisted}")
    if not facts.leftovers:
        return
    size = sum(leftover.size_bytes for leftover in facts.leftovers)
    oldest = facts.now - min(leftover.changed for leftover in facts.leftovers)
    yield Finding(
        code=Code.LEFTOVERS,
        where="",
        text=f"{amount(len(facts.leftovers), 'leftover')} of {size:,} bytes, the oldest {age(oldest)} old: "
        "files of writes that lost, failed, or are under way",
        remedy=f"sarameya sweep {facts.table} --older-than 1d",
    )
