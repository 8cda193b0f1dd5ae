"""What the tests of the assignors share: topics by their partition counts."""

from __future__ import annotations

from collections.abc import Mapping

from sarameya.protocol.assignors import TopicLayout


def layouts(counts: Mapping[str, int]) -> dict[str, TopicLayout]:
    """Topics of so many partitions each, of whose racks nothing is known."""
    return {topic: TopicLayout(count) for topic, count in counts.items()}
