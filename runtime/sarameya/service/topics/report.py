"""Topics as text for people and as JSON documents for programs. docs/topics.md has their stable fields. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from sarameya.model import TopicPartition
from sarameya.net.log_offsets import LogOffsets
from sarameya.protocol.cluster.described_topics import DescribedPartition, DescribedTopic
from sarameya.secret import MASK
from sarameya.service.output.command_result import Document
from sarameya.service.output.text import NOTHING, counted, listed, printable, table


@attrs.frozen(slots=True)
class TopicReport:
    """A topic, its logs and its settings.

    `settings` is None if they may not be read; `why_no_settings` has the reason.
    """

    topic: DescribedTopic
    starts: LogOffsets
    ends: LogOffsets
    settings: Mapping[str, str | None] | None
    why_no_settings: str = ""

    def start(self, partition: TopicPartition) -> int | None:
        """Return the partition's log start, if it is known."""
        return self.starts.found.get(partition)

    def end(self, partition: TopicPartition) -> int | None:
        """Return the partition's log end, if it is known."""
        return self.ends.found.get(partition)

    @property
    def offsets(self) -> int | None:
        """The number of offsets from log starts to ends; None if one is unknown. An offset may have no record."""
        sizes = [self._size(partition.partition) for partition in self.topic.partitions]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    def _size(self, partition: TopicPartition) -> int | None:
        start, end = self.start(partition), self.end(partition)
        return None if start is None or end is None else end - start

    def why_unknown(self, partition: TopicPartition) -> str:
        """Return the reason why an offset of the partition's log is unknown; empty if all are known."""
        return self.ends.missing.get(partition) or self.starts.missing.get(partition, "")


# -- list ----------------------------------------------------------------------------------------


def listing_text(topics: Iterable[DescribedTopic]) -> str:
    """Return the text of `sarameya topics list`."""
    rows = [
        (topic.name, len(topic.partitions), topic.replication_factor, len(_leaderless(topic)), len(_lagging(topic)))
        for topic in topics
    ]
    return table(("TOPIC", "PARTITIONS", "REPLICAS", "NO-LEADER", "NOT-IN-SYNC"), rows) if rows else "no topics"


def listing_document(topics: Iterable[DescribedTopic]) -> Document:
    """Return the document of `sarameya topics list`."""
    return {
        "topics": [
            {
                **_topic(topic),
                "partitions": len(topic.partitions),
                "without_leader": len(_leaderless(topic)),
                "not_in_sync": len(_lagging(topic)),
            }
            for topic in topics
        ]
    }


# -- describe ------------------------------------------------------------------------------------


def report_text(report: TopicReport) -> str:
    """Return the text of one topic of `sarameya topics describe`."""
    topic = report.topic
    header = ("PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN-SYNC", "LOG-START", "LOG-END")
    rows = [
        (
            row.partition.partition,
            row.leader,
            row.leader_epoch,
            _nodes(row.replicas),
            _nodes(row.in_sync),
            report.start(row.partition),
            report.end(row.partition),
        )
        for row in topic.partitions
    ]
    lines = "\n".join(map(printable, _advice(report)))
    return "\n\n".join(filter(None, (_head(report), table(header, rows), lines)))


def report_document(report: TopicReport) -> Document:
    """Return the document of one topic of `sarameya topics describe`."""
    return {
        **_topic(report.topic),
        "offsets": report.offsets,
        "settings": report.settings and dict(report.settings),
        "partitions": [
            {
                "partition": row.partition.partition,
                "leader": row.leader,
                "leader_epoch": row.leader_epoch,
                "replicas": list(row.replicas),
                "in_sync": list(row.in_sync),
                "log_start_offset": report.start(row.partition),
                "log_end_offset": report.end(row.partition),
                "problem": report.why_unknown(row.partition) or None,
            }
            for row in report.topic.partitions
        ],
        "advice": list(_advice(report)),
    }


def _topic(topic: DescribedTopic) -> Document:
    return {
        "topic": topic.name,
        "topic_id": str(topic.topic_id) if topic.topic_id else None,
        "internal": topic.is_internal,
        "replication_factor": topic.replication_factor,
    }


def _head(report: TopicReport) -> str:
    topic = report.topic
    lines: list[tuple[str, object]] = [
        ("id", topic.topic_id),
        ("partitions", len(topic.partitions)),
        ("replicas", topic.replication_factor),
        ("offsets", report.offsets),
    ]
    if report.settings is not None:
        lines.append(("settings", "" if report.settings else None))
    for name, value in sorted((report.settings or {}).items()):
        lines.append((f"  {name}", MASK if value is None else value))
    width = max(len(name) for name, _ in lines)
    shown = [f"  {name:{width}}  {NOTHING if value is None else printable(str(value))}" for name, value in lines]
    return "\n".join([f"TOPIC {printable(topic.name)}", *(line.rstrip() for line in shown)])


def _advice(report: TopicReport) -> Iterator[str]:
    """Yield a line for each kind of problem."""
    topic = report.topic
    if leaderless := _leaderless(topic):
        yield f"{_names(leaderless)}: no leader, so that nothing is read or written; is a broker down?"
    if lagging := _lagging(topic):
        yield f"{_names(lagging)}: not every replica is in sync"
    reasons: dict[str, list[DescribedPartition]] = {}
    for row in topic.partitions:
        if row.leader is not None and (reason := report.why_unknown(row.partition)):
            reasons.setdefault(reason, []).append(row)
    for reason, partitions in reasons.items():
        yield f"{_names(partitions)}: the log's offsets are not known: {reason}"
    if report.settings is None:
        yield f"its settings are unknown: {report.why_no_settings}"


def _leaderless(topic: DescribedTopic) -> list[DescribedPartition]:
    return [row for row in topic.partitions if row.leader is None]


def _lagging(topic: DescribedTopic) -> list[DescribedPartition]:
    return [row for row in topic.partitions if not row.is_in_sync]


def _names(partitions: Iterable[DescribedPartition]) -> str:
    return listed([str(row.partition) for row in partitions])


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))


# -- changes -------------------------------------------------------------------------------------


def size_text(report: TopicReport) -> str:
    """Return a topic's size as text: `4 partitions and 1,234 offsets`."""
    offsets = "an unknown number of offsets" if report.offsets is None else counted(report.offsets, "offset")
    return f"{counted(len(report.topic.partitions), 'partition')} and {offsets}"
