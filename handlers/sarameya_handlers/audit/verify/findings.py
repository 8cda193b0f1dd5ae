"""Findings of an audit: a code for programs, a line for people, and a remedy. Pure."""

from __future__ import annotations

from enum import StrEnum

import attrs


class Severity(StrEnum):
    """Effect of a finding on the result of an audit."""

    WRONG = "wrong"
    """The table does not hold each record exactly once, or landing in it cannot continue."""
    UNPROVED = "unproved"
    """The table may be correct or wrong. The reason may be harmless, but the table does not show it."""
    NOTE = "note"
    """Information that does not affect the proof."""


class Code(StrEnum):
    """Kind of a finding; `docs/audit.md` describes each."""

    NO_CHAINS = "no-chains"
    LINKS_UNREADABLE = "links-unreadable"
    LINK_MISSING = "link-missing"
    RANGE_BROKEN = "range-broken"
    ORIGIN_CHANGED = "origin-changed"
    ROWS_UNREADABLE = "rows-unreadable"
    ROWS_EXTRA = "rows-extra"
    ROWS_MISSING = "rows-missing"
    ROWS_OUTSIDE = "rows-outside"
    RECORDS_UNACCOUNTED = "records-unaccounted"
    OFFSETS_REPEATED = "offsets-repeated"
    ROWS_UNPUBLISHED = "rows-unpublished"
    TABLE_REWOUND = "table-rewound"
    COMMIT_MOVED = "commit-moved"
    CHAIN_FOREIGN = "chain-foreign"
    RECORDS_LOST = "records-lost"
    CLUSTER_SILENT = "cluster-silent"
    ROWS_UNCOUNTED = "rows-uncounted"
    LINKS_FORGOTTEN = "links-forgotten"
    OFFSETS_UNKNOWN = "offsets-unknown"
    DEAD_LETTERS = "dead-letters"
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
    Code.RECORDS_UNACCOUNTED: Severity.WRONG,
    Code.OFFSETS_REPEATED: Severity.WRONG,
    Code.ROWS_UNPUBLISHED: Severity.UNPROVED,
    Code.TABLE_REWOUND: Severity.WRONG,
    Code.COMMIT_MOVED: Severity.WRONG,
    Code.CHAIN_FOREIGN: Severity.WRONG,
    Code.RECORDS_LOST: Severity.WRONG,
    Code.CLUSTER_SILENT: Severity.UNPROVED,
    Code.ROWS_UNCOUNTED: Severity.NOTE,
    Code.LINKS_FORGOTTEN: Severity.NOTE,
    Code.OFFSETS_UNKNOWN: Severity.NOTE,
    Code.DEAD_LETTERS: Severity.NOTE,
    Code.GAP: Severity.NOTE,
    Code.LANDED_MEANWHILE: Severity.NOTE,
    Code.COMMIT_BEHIND: Severity.NOTE,
    Code.LAG: Severity.NOTE,
    Code.LEFTOVERS: Severity.NOTE,
}


@attrs.frozen(slots=True, kw_only=True)
class Finding:
    """A finding. `where` is a chain, a partition, or empty for the table."""

    code: Code
    where: str
    text: str
    remedy: str = ""
    accepted: bool = False
    """True if the user accepts this code. The finding then does not prevent the proof."""

    @property
    def severity(self) -> Severity:
        """Severity of the code, accepted or not."""
        return SEVERITY[self.code]

    @property
    def prevents_proof(self) -> bool:
        """True if the table is not proved because of this finding."""
        return self.severity is not Severity.NOTE and not self.accepted
