"""What an audit finds: a code for programs, a line for people, and what to do. Pure."""

from __future__ import annotations

from enum import StrEnum

import attrs


class Severity(StrEnum):
    """What a finding means for the proof."""

    WRONG = "wrong"
    """The table does not hold each record exactly once, or landing in it cannot go on."""
    UNPROVED = "unproved"
    """It may, or may not: the reason may be harmless, but the table does not tell."""
    NOTE = "note"
    """To be known; it takes nothing from the proof."""


class Code(StrEnum):
    """What was found; `docs/audit.md` tells of each."""

    NO_CHAINS = "no-chains"
    LINKS_UNREADABLE = "links-unreadable"
    LINK_MISSING = "link-missing"
    RANGE_BROKEN = "range-broken"
    ORIGIN_CHANGED = "origin-changed"
    ROWS_UNREADABLE = "rows-unreadable"
    ROWS_EXTRA = "rows-extra"
    ROWS_MISSING = "rows-missing"
    ROWS_OUTSIDE = "rows-outside"
    OFFSETS_REPEATED = "offsets-repeated"
    ROWS_UNPUBLISHED = "rows-unpublished"
    TABLE_REWOUND = "table-rewound"
    COMMIT_MOVED = "commit-moved"
    CHAIN_FOREIGN = "chain-foreign"
    RECORDS_LOST = "records-lost"
    CLUSTER_SILENT = "cluster-silent"
    ROWS_UNCOUNTED = "rows-uncounted"
    LINKS_FORGOTTEN = "links-forgotten"
    GAP = "gap"
    LANDED_MEANWHILE = "landed-meanwhile"
    COMMIT_BEHIND = "commit-behind"
    LAG = "lag"
    LEFTOVERS = "leftovers"


SEVERITY = {
    Code.NO_CHAINS: Severity.UNPROVED,
    Code.LINKS_UNREADABLE: Severity.WRONG,
    Code.LINK_MISSING: Severity.WRONG,
    Code.RANGE_BROKEN: Severity.WRONG,
    Code.ORIGIN_CHANGED: Severity.WRONG,
    Code.ROWS_UNREADABLE: Severity.WRONG,
    Code.ROWS_EXTRA: Severity.WRONG,
    Code.ROWS_MISSING: Severity.UNPROVED,
    Code.ROWS_OUTSIDE: Severity.WRONG,
    Code.OFFSETS_REPEATED: Severity.WRONG,
    Code.ROWS_UNPUBLISHED: Severity.UNPROVED,
    Code.TABLE_REWOUND: Severity.WRONG,
    Code.COMMIT_MOVED: Severity.WRONG,
    Code.CHAIN_FOREIGN: Severity.WRONG,
    Code.RECORDS_LOST: Severity.WRONG,
    Code.CLUSTER_SILENT: Severity.UNPROVED,
    Code.ROWS_UNCOUNTED: Severity.NOTE,
    Code.LINKS_FORGOTTEN: Severity.NOTE,
    Code.GAP: Severity.NOTE,
    Code.LANDED_MEANWHILE: Severity.NOTE,
    Code.COMMIT_BEHIND: Severity.NOTE,
    Code.LAG: Severity.NOTE,
    Code.LEFTOVERS: Severity.NOTE,
}


@attrs.frozen(slots=True, kw_only=True)
class Finding:
    """One thing that was found. `where` is a chain, a partition, or empty for the table."""

    code: Code
    where: str
    text: str
    remedy: str = ""
    accepted: bool = False
    """Whether whoever asked knows of it: then it takes nothing from the proof."""

    @property
    def severity(self) -> Severity:
        """What its code amounts to, accepted or not."""
        return SEVERITY[self.code]

    @property
    def counts(self) -> bool:
        """Whether the table is not proved because of it."""
        return self.severity is not Severity.NOTE and not self.accepted
