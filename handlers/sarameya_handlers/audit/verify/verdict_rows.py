"""Compares rows with links: does each link's range hold what its commit recorded, once, and nothing else? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sarameya import TopicPartition
from sarameya_handlers.audit.facts import BEYOND, FORGOTTEN, ChainFacts, Count, Facts, Span, Stray
from sarameya_handlers.audit.verify.findings import Code, Finding
from sarameya_handlers.audit.verify.spans import spans_of
from sarameya_handlers.audit.wording import amount, offsets, place_of, records_of
from sarameya_handlers.landing.links import UNKNOWN_COUNT, ChainKey, Link

_REMEDY = "find the other writer of the table, and delete its rows"


def row_findings(facts: Facts) -> Iterator[Finding]:
    """Yield the findings about rows. If the rows were not counted, yield only the reason."""
    if facts.unreadable:
        text = f"the table's rows cannot be read: {facts.unreadable}"
        remedy = "restore the missing files of the table, from a copy if necessary"
        yield Finding(code=Code.ROWS_UNREADABLE, where="", text=text, remedy=remedy)
    if facts.counts is None:
        if facts.uncounted and facts.chains:
            text = f"the rows were not counted, so only the links are proved: {facts.uncounted}"
            yield Finding(code=Code.ROWS_UNCOUNTED, where="", text=text)
        return
    spans = spans_of(facts.chains, forgets=facts.forgets)
    for partition, reason in spans.uncounted.items():
        text = f"the rows were not counted, so only the links are proved: {reason}"
        yield Finding(code=Code.ROWS_UNCOUNTED, where=str(partition), text=text)
    links = {(chain.key, link.number, link.from_offset): link for chain in facts.chains for link in chain.links}
    chains = {chain.key: chain for chain in facts.chains}
    for span in spans.spans:
        key = ChainKey(span.sink, span.topic, span.partition)
        count = facts.counts.spans.get(span, Count(0, 0, 0, 0))
        if span.number == BEYOND:
            yield from _beyond(chains[key], span, count)
            continue
        if span.number != FORGOTTEN:
            yield from _linked(links[key, span.number, span.start], count)
        yield from _repeated(key, span, count)
    for stray in facts.counts.strays:
        yield from _stray(stray, facts, spans.uncounted)


def _linked(link: Link, count: Count) -> Iterator[Finding]:
    where, at = str(link.key), place_of(link)
    expected = link.rows if link.rows != UNKNOWN_COUNT else link.expected_rows
    if expected is None:
        text = f"{at}: its commit recorded no number of rows, there are {count.rows:,}"
        yield Finding(code=Code.ROWS_UNCOUNTED, where=where, text=text)
        return
    missing = expected - count.rows
    if link.expected_rows == expected:  # a duplicate must not hide that another record has no row
        missing = max(missing, expected - count.offsets)
    if missing > 0:
        were = "was" if missing == 1 else "were"
        yield Finding(
            code=Code.ROWS_MISSING,
            where=where,
            text=f"{at}: {missing:,} of its {amount(expected, 'row')} {were} deleted later, or lost",
            remedy="if they were deleted on purpose, --accept rows-missing; else restore the table, rewind its group",
        )
    if count.rows > expected:
        text = f"{at}: {amount(count.rows - expected, 'row')} more than its {expected:,}"
        yield Finding(code=Code.ROWS_EXTRA, where=where, text=text, remedy=_REMEDY)
    elif link.records != UNKNOWN_COUNT and count.offsets > link.records - link.dead_letters:
        text = f"{at}: rows of {count.offsets:,} offsets, but its owner received {records_of(link)}"
        yield Finding(code=Code.ROWS_EXTRA, where=where, text=text, remedy=_REMEDY)


def _repeated(key: ChainKey, span: Span, count: Count) -> Iterator[Finding]:
    if count.repeated:
        number = f"link {span.number}, " if span.number != FORGOTTEN else ""
        yield Finding(
            code=Code.OFFSETS_REPEATED,
            where=str(key),
            text=f"{number}{offsets(span.start, span.stop)}: {amount(count.repeated, 'duplicate row')} (same offset)",
            remedy="delete all but one of each; if the sink's transform makes several rows of a record, --accept "
            "offsets-repeated",
        )


def _beyond(chain: ChainFacts, span: Span, count: Count) -> Iterator[Finding]:
    """Check for rows after the last link. Only rows that landed while they were counted may be there."""
    if not count.rows or _is_landed_since(chain, count.first, count.last):
        return
    yield _outside(str(chain.key), count.rows, count.first, count.last, f"its chain ends at {span.start}")


def _is_landed_since(chain: ChainFacts, first: int | None, last: int | None) -> bool:
    if not chain.later or first is None or last is None:
        return False
    return chain.later[0].from_offset <= first and last < chain.later[-1].to_offset


def _stray(stray: Stray, facts: Facts, uncounted: dict[TopicPartition, str]) -> Iterator[Finding]:
    if stray.topic is None or stray.partition is None:
        text = f"{amount(stray.rows, 'row')} without a topic, partition or offset"
        yield Finding(code=Code.ROWS_OUTSIDE, where="", text=text, remedy=_REMEDY)
        return
    partition = TopicPartition(stray.topic, stray.partition)
    if partition in uncounted:
        return
    chains = [chain for chain in facts.chains if chain.key.topic_partition == partition]
    if any(not chain.links and _is_landed_since(chain, stray.first, stray.last) for chain in chains):
        return
    why = "its chain has no link with records there" if chains else "it has no chain"
    yield _outside(str(partition), stray.rows, stray.first, stray.last, why)


def _outside(where: str, rows: int, first: int | None, last: int | None, why: str) -> Finding:
    between = "" if first is None or last is None else f", {offsets(first, last + 1)}"
    text = f"{amount(rows, 'row')} outside of any link{between}: {why}"
    return Finding(code=Code.ROWS_OUTSIDE, where=where, text=text, remedy=_REMEDY)
