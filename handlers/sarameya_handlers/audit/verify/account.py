"""Accounts for each offset of a chain: it has a row, or there is a reason why it has none. Pure.

The parts add up to the chain's offsets. Which records were received, and which became dead letters, is what the owner
of each link recorded; which offsets have rows is counted in the table.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from sarameya_handlers.audit.facts import ChainFacts, Count, Counts, Facts
from sarameya_handlers.audit.verify.spans import spans_of
from sarameya_handlers.landing.links import UNKNOWN_BEGIN, UNKNOWN_COUNT, Kind, Link


@attrs.frozen(slots=True, kw_only=True)
class Account:
    """Numbers of offsets, by what became of them.

    Attributes:
        with_rows: Offsets with at least one row.
        dead_letters: Records that became dead letters. Whether the letters still exist is not checked.
        dropped: Records without a row, in links whose rows were made by a transform.
        missing: Other records without a row: their rows were deleted later, or lost.
        gaps: Offsets that were left out on purpose, with a reason.
        without_record: Offsets that had no record to receive: control records, aborted transactions, compaction.
        unknown: Offsets without a row in links of older versions, and offsets of links that the table has forgotten.
    """

    with_rows: int = 0
    dead_letters: int = 0
    dropped: int = 0
    missing: int = 0
    gaps: int = 0
    without_record: int = 0
    unknown: int = 0

    @property
    def offsets(self) -> int:
        """Number of offsets in all: the sum of the parts."""
        return sum(attrs.astuple(self))


def accounts_of(facts: Facts) -> Iterator[tuple[ChainFacts, Account]]:
    """Yield the account of each chain whose rows were counted."""
    if facts.counts is not None:
        uncounted = spans_of(facts.chains, forgets=facts.forgets).uncounted
        for chain in facts.chains:
            if chain.key.topic_partition not in uncounted:
                yield chain, account_of(chain, facts.counts)


def account_of(chain: ChainFacts, counts: Counts) -> Account:
    """Return the account of a chain's links, without those that were appended during the count."""
    parts = [_of_link(link, counts.of(link)) for link in chain.links]
    if chain.links and (first := chain.links[0]).number > 1 and first.origin.begin != UNKNOWN_BEGIN:
        parts.append(Account(unknown=first.from_offset - first.origin.begin))
    names = [field.name for field in attrs.fields(Account)]
    return Account(**{name: sum(getattr(part, name) for part in parts) for name in names})


def _of_link(link: Link, count: Count) -> Account:
    with_rows = count.offsets
    if link.kind is Kind.GAP:
        return Account(gaps=link.length)
    if link.records == UNKNOWN_COUNT:
        return Account(with_rows=with_rows, unknown=link.length - with_rows)
    # More offsets with rows than records is a finding of its own. The sum stays the link's length, and no part is < 0.
    letters = min(link.dead_letters, link.length - with_rows)
    without_record = min(link.length - link.records, link.length - with_rows - letters)
    without_row = link.length - with_rows - letters - without_record
    missing = without_row
    if link.is_transformed:
        missing = min(max(link.rows - count.rows, 0), without_row)
    return Account(
        with_rows=with_rows,
        dead_letters=letters,
        dropped=without_row - missing,
        missing=missing,
        without_record=without_record,
    )
