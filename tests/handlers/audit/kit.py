"""Hypothesis strategies for chains, rows and clusters without faults, and a count of rows, for tests of the audit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from sarameya import CommittedOffset, TopicPartition
from sarameya_handlers import ParquetTable
from sarameya_handlers.audit.facts import (
    ChainFacts,
    ClusterFacts,
    Count,
    Counts,
    Facts,
    GroupFacts,
    LogSpan,
    Span,
    Stray,
)
from sarameya_handlers.audit.verify.spans import spans_of
from sarameya_handlers.landing.links import ChainKey, CommitNote, Kind, Link, Origin
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Checkpoint, Landing

NOW = 1_800_000_000.0

Row = tuple[str | None, int | None, int | None]
"""Topic, partition and offset of a row's record."""


@attrs.frozen
class World:
    """A table and its cluster: chains with their links, rows, commits, logs. Tests introduce faults into them."""

    chains: tuple[tuple[Link, ...], ...]
    rows: tuple[Row, ...]
    committed: dict[TopicPartition, CommittedOffset]
    logs: dict[TopicPartition, LogSpan]
    forgets: bool = False
    """True if the table may have forgotten its oldest links."""

    def facts(self) -> Facts:
        chains = tuple(ChainFacts(key=links[0].key, head=links[-1], links=links) for links in self.chains)
        spans = spans_of(chains, forgets=self.forgets).spans
        groups: dict[str, GroupFacts] = {
            link.origin.group: GroupFacts(committed=self.committed) for links in self.chains for link in links
        }
        return Facts(
            table="parquet:/data/orders",
            forgets=self.forgets,
            chains=chains,
            counts=count_rows(self.rows, spans),
            cluster=ClusterFacts(groups=groups, logs=self.logs),
            now=NOW,
        )


def count_rows(rows: Iterable[Row], spans: Sequence[Span]) -> Counts:
    """Count the rows of each span, by the simplest algorithm."""
    found: dict[Span, list[int]] = {}
    strays: dict[tuple[str | None, int | None], list[int | None]] = {}
    for topic, partition, offset in rows:
        if topic is None or partition is None or offset is None:
            strays.setdefault((None, None), []).append(None)
            continue
        for span in spans:
            if (span.topic, span.partition) == (topic, partition) and span.start <= offset < span.stop:
                found.setdefault(span, []).append(offset)
                break
        else:
            strays.setdefault((topic, partition), []).append(offset)
    return Counts(
        {span: Count(len(offsets), len(set(offsets)), min(offsets), max(offsets)) for span, offsets in found.items()},
        [
            Stray(*key, len(offsets), *((None, None) if None in offsets else (min(offsets), max(offsets))))  # type: ignore[type-var]
            for key, offsets in sorted(
                strays.items(), key=lambda item: (item[0][0] is None, str(item[0][0]), item[0][1] or 0)
            )
        ],
    )


@st.composite
def chains(draw: st.DrawFn, key: ChainKey, *, first: int = 1, start: int | None = None) -> tuple[Link, ...]:
    """Generate a chain without faults: links of records, some of them without rows; gaps; empty and restated links.

    Some links of records are like those of older versions, which recorded no number of records.
    """
    origin = Origin(group="billing", topic_id=draw(st.sampled_from(["", "ab" * 16])))
    at = draw(st.integers(0, 50)) if start is None else start
    links: list[Link] = []
    for number in range(first, first + draw(st.integers(1, 8))):
        kind = draw(st.sampled_from([Kind.RECORDS, Kind.RECORDS, Kind.RECORDS, Kind.GAP, Kind.RESTATED]))
        width = 0 if kind is Kind.RESTATED else draw(st.integers(1 if kind is Kind.GAP else 0, 12))
        rows = draw(st.integers(0, width)) if kind is Kind.RECORDS else 0
        records: dict[str, Any] = {}
        if kind is Kind.RECORDS and draw(st.booleans()):
            letters, is_transformed = draw(st.integers(0, width - rows)), draw(st.booleans())
            dropped = draw(st.integers(0, width - rows - letters)) if is_transformed else 0
            records = {"records": rows + letters + dropped, "dead_letters": letters, "is_transformed": is_transformed}
        link = Link(
            key=key,
            number=number,
            from_offset=at,
            to_offset=at + width,
            attempt=f"{number:032x}",
            origin=origin,
            rows=rows,
            kind=kind,
            reason="retention" if kind is Kind.GAP else "",
            **records,
        )
        links.append(link)
        at += width
    return tuple(links)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Generate a table and a cluster without faults.

    Chains are of several partitions. Commits, with or without a note, are at or before the heads. Each log starts
    before the head and ends after it.
    """
    partitions = draw(
        st.lists(st.tuples(st.sampled_from(["orders", "payments"]), st.integers(0, 2)), min_size=1, unique=True)
    )
    forgets = draw(st.booleans())
    found: list[tuple[Link, ...]] = []
    rows: list[Row] = []
    committed: dict[TopicPartition, CommittedOffset] = {}
    logs: dict[TopicPartition, LogSpan] = {}
    for topic, partition in sorted(partitions):
        key = ChainKey("warehouse", topic, partition)
        first = draw(st.integers(2, 9)) if forgets and draw(st.booleans()) else 1
        links = draw(chains(key, first=first))
        found.append(links)
        for link in links:
            # Offsets without a row are at the start of the link: compaction or a transform has removed these records.
            rows += [(topic, partition, offset) for offset in range(link.to_offset - link.rows, link.to_offset)]
        if first > 1:
            rows += [(topic, partition, offset) for offset in range(draw(st.integers(0, links[0].from_offset)))]
        head, tp = links[-1], key.topic_partition
        noted = draw(st.sampled_from([None, *links]))
        offset = draw(st.integers(0, head.to_offset))
        match draw(st.sampled_from(["none", "bare", "note"])):
            case "bare":
                committed[tp] = CommittedOffset(offset)
            case "note" if noted is not None:
                tail = draw(st.integers(0, 5)) if noted is head else 0
                committed[tp] = CommittedOffset(noted.to_offset + tail, CommitNote.of(noted).to_metadata())
        start = draw(st.integers(0, head.to_offset))
        end = draw(st.integers(max(head.to_offset, getattr(committed.get(tp), "offset", 0)), head.to_offset + 30))
        logs[tp] = LogSpan(start=start, end=end, topic_id=head.origin.topic_id)
    return World(tuple(found), tuple(rows), committed, logs, forgets)


def land(table: ParquetTable, *links: Link, checkpoint: Checkpoint = lambda phase, landings: None) -> None:
    """Land these links, with a row for each offset."""
    for link in links:
        path = table.staging.directory / f"{link.attempt}.parquet"
        offsets = range(link.from_offset, link.to_offset)
        records = pa.table(
            {
                "topic": pa.array([link.key.topic] * len(offsets), pa.string()),
                "partition": pa.array([link.key.partition] * len(offsets), pa.int32()),
                "offset": pa.array(offsets, pa.int64()),
            }
        )
        pq.write_table(records, path)
        landing = Landing(link=link, staged=StagedFile(path), records=records.num_rows)
        table.land(None, [landing], Shaping(), checkpoint)  # type: ignore[arg-type]
