"""Compares the table with its groups' commits and the logs: may the next owner of each partition start? Pure.

The check uses the rule by which an owner does start (`landing/chain_start.py`), so that an audit and a start never
differ.
"""

from __future__ import annotations

from collections.abc import Iterator

from sarameya import CommittedOffset
from sarameya_handlers.audit.facts import ChainFacts, ClusterFacts, Facts, LogSpan
from sarameya_handlers.audit.verify.findings import Code, Finding
from sarameya_handlers.audit.wording import amount
from sarameya_handlers.landing.chain_start import Log, choose_chain_start
from sarameya_handlers.landing.errors import (
    ChainError,
    ForeignChainError,
    LostRecordsError,
    MovedCommitError,
    RewoundTableError,
)
from sarameya_handlers.landing.links import Link, Origin

_CODES: dict[type[ChainError], Code] = {
    RewoundTableError: Code.TABLE_REWOUND,
    MovedCommitError: Code.COMMIT_MOVED,
    ForeignChainError: Code.CHAIN_FOREIGN,
    LostRecordsError: Code.RECORDS_LOST,
}

_REWOUND = (Code.TABLE_REWOUND, Code.COMMIT_MOVED)
"""Codes of findings that end once the group's committed offsets match the table's heads."""

_REACH = "try again when the cluster can be reached"


def cluster_findings(facts: Facts) -> Iterator[Finding]:
    """Yield the findings of the cluster for each chain; none if the audit did not read it."""
    if facts.cluster is None:
        return
    for group, known in facts.cluster.groups.items():
        if known.problem:
            text = f"the committed offsets of group {group!r} are unknown: {known.problem}"
            yield Finding(code=Code.CLUSTER_SILENT, where="", text=text, remedy=_REACH)
    for chain in facts.chains:
        if chain.last is not None:
            yield from _chain(facts.table, chain, chain.last, facts.cluster)


def _chain(table: str, chain: ChainFacts, head: Link, cluster: ClusterFacts) -> Iterator[Finding]:
    where, partition = str(chain.key), chain.key.topic_partition
    group, log = cluster.groups.get(head.origin.group), cluster.logs.get(partition, LogSpan())
    if log.start is None or log.end is None:
        text = f"start and end of the log of {partition} are unknown: {log.problem or 'no broker responded'}"
        yield Finding(code=Code.CLUSTER_SILENT, where=where, text=text, remedy=_REACH)
    if group is None or group.problem:
        return
    committed = group.committed.get(partition)
    refusal = _refusal(table, chain, head, committed, log)
    if refusal is not None:
        yield refusal
    elif committed is None:
        text = f"group {head.origin.group!r} has committed nothing: the next owner starts at the head's end"
        yield Finding(code=Code.COMMIT_BEHIND, where=where, text=text)
    elif committed.offset < head.to_offset:
        behind = amount(head.to_offset - committed.offset, "offset")
        text = f"the commit at {committed.offset} is {behind} behind the head's end, where the next owner starts"
        yield Finding(code=Code.COMMIT_BEHIND, where=where, text=text)
    if log.end is not None and log.end > head.to_offset:
        lag = amount(log.end - head.to_offset, "offset")
        yield Finding(code=Code.LAG, where=where, text=f"{lag} of the log have not landed yet")


def _refusal(
    table: str, chain: ChainFacts, head: Link, committed: CommittedOffset | None, log: LogSpan
) -> Finding | None:
    """Return the finding for a start that would be refused; None if the next owner could start."""
    # An unknown log must not refuse the head.
    known = Log(start=0, end=head.to_offset)
    if log.start is not None and log.end is not None:
        known = Log(start=log.start, end=log.end, epoch_end=log.epoch_end)
    origin = Origin(group=head.origin.group, topic_id=log.topic_id or head.origin.topic_id)
    try:
        choose_chain_start(chain.key, origin, head, committed, known)
    except ChainError as error:
        code = _CODES.get(type(error), Code.LINKS_UNREADABLE)
        remedy = f"sarameya rewind {table} --to-head --bootstrap HOST:PORT --execute" if code in _REWOUND else ""
        return Finding(code=code, where=str(chain.key), text=str(error), remedy=remedy)
    return None
