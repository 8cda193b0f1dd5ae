"""Accounts for each offset of a chain: it has a row, or there is a reason why it has none. Pure.

The parts add up to the chain's offsets. Which records were received, and which became dead letters, is what the owner
of each link recorded; which offsets have rows is counted in the table.
"""

from __future__ import annotations

import attrs

from sarameya_handlers.audit.facts import ChainFacts, Counts
from sarameya_handlers.landing.links import UNKNOWN_BEGIN, UNKNOWN_COUNT, Kind, Link


@attrs.frozen(slots=True, kw_only=True)
class Account:
    """Numbers of offsets, by what became of them.

    Attributes:
        with_rows: Offsets with at least one row.
        dead_letters: Records that became dead letters. Whether the letters still exist is not checked.
        dropped: Records without a row, in links whose rows were made by a transform.
        missing: Records without a row in other links: their rows were deleted later, or lost.
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
        """Number of the chain's offsets: the sum of all parts."""
        return sum(attrs.astuple(self))

    def __add__(self, other: Account) -> Account:
        return Account(**{name: mine + getattr(other, name) for name, mine in attrs.asdict(self).items()})


def account_of(chain: ChainFacts, counts: Counts) -> Account:
    """Return the account of a chain's links, without those that were appended during the count."""
    account = Account()
    for link in chain.links:
        account += _of_link(link, counts.of(link).offsets)
    if chain.links and (first := chain.links[0]).number > 1 and first.origin.begin != UNKNOWN_BEGIN:
        account += Account(unknown=first.from_offset - first.origin.begin)
    return account


def _of_link(link: Link, with_rows: int) -> Account:
    if link.kind is Kind.GAP:
        return Account(gaps=link.length)
    if link.records == UNKNOWN_COUNT:
        return Account(with_rows=with_rows, unknown=link.length - with_rows)
    without_row = link.records - link.dead_letters - with_rows
    return Account(
        with_rows=with_rows,
        dead_letters=link.dead_letters,
        dropped=max(without_row, 0) if link.is_transformed else 0,
        missing=0 if link.is_transformed else max(without_row, 0),
        # More offsets with rows than records is a finding of its own; the sum stays that of the link.
        without_record=link.length - link.records + min(without_row, 0),
    )
