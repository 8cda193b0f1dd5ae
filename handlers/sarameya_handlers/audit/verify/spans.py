"""Offset ranges whose rows are counted together: each link's, and those before and after all links. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from sarameya import TopicPartition
from sarameya_handlers.audit.facts import BEYOND, FORGOTTEN, ChainFacts, Span
from sarameya_handlers.landing.links import Kind, Link

END = 2**63 - 1
"""An offset after every other."""


@attrs.frozen(slots=True)
class Spans:
    """Spans in order, without overlap. Partitions in `uncounted` have none; the values are the reasons."""

    spans: tuple[Span, ...] = ()
    uncounted: dict[TopicPartition, str] = attrs.field(factory=dict)


def spans_of(chains: Iterable[ChainFacts], *, forgets: bool) -> Spans:
    """Return the spans of all chains. `forgets`: the table may have forgotten its oldest links."""
    by_partition: dict[TopicPartition, list[ChainFacts]] = {}
    for chain in chains:
        if chain.links:
            by_partition.setdefault(chain.key.topic_partition, []).append(chain)
    spans: list[Span] = []
    uncounted: dict[TopicPartition, str] = {}
    for partition in sorted(by_partition):
        found = _of_partition(partition, by_partition[partition], forgets)
        if isinstance(found, str):
            uncounted[partition] = found
        else:
            spans += found
    return Spans(tuple(spans), uncounted)


def _of_partition(partition: TopicPartition, chains: list[ChainFacts], forgets: bool) -> list[Span] | str:
    oldest = {(chain.key, chain.links[0].number) for chain in chains if forgets and chain.links[0].number > 1}
    links = sorted((link for chain in chains for link in chain.links), key=_place)
    spans: list[Span] = []
    at = 0
    for link in links:
        if link.from_offset < at and link.to_offset > link.from_offset:
            return _overlap(chains)
        if (link.key, link.number) in oldest and link.from_offset > at:
            spans.append(Span(*partition, at, link.from_offset, link.key.sink, FORGOTTEN))
        if link.kind is Kind.RECORDS and link.to_offset > link.from_offset:
            spans.append(Span(*partition, link.from_offset, link.to_offset, link.key.sink, link.number))
        at = max(at, link.to_offset)
    last = max((chain for chain in chains), key=lambda chain: chain.links[-1].to_offset)
    spans.append(Span(*partition, at, END, last.key.sink, BEYOND))
    return spans


def _place(link: Link) -> tuple[int, int, str, int]:
    return link.from_offset, link.to_offset, link.key.sink, link.number


def _overlap(chains: list[ChainFacts]) -> str:
    if len(chains) == 1:
        return "its links overlap"
    sinks = ", ".join(sorted(repr(chain.key.sink) for chain in chains))
    return f"the sinks {sinks} have landed the same offsets, and rows do not name their sink"
