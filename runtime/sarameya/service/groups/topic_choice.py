"""The partitions that arguments of the form `TOPIC` or `TOPIC:0,2-4` name. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from sarameya.errors import kafka_error
from sarameya.model import TOPIC_NAME, TopicPartition
from sarameya.protocol.cluster.metadata import ClusterMetadata
from sarameya.service.groups.checks import GroupChangeError
from sarameya.service.output.text import counted

_CHOICE = re.compile(rf"(?P<topic>{TOPIC_NAME.pattern})(:(?P<numbers>\d+(-\d+)?(,\d+(-\d+)?)*))?")
_MAX_PARTITIONS = 200_000
"""More partitions than any topic has. A larger range is a mistake, and would fill the memory before it is reported."""


@attrs.frozen(slots=True)
class TopicChoice:
    """A topic and some of its partitions; all if `partitions` is None."""

    topic: str
    partitions: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, text: str) -> TopicChoice:
        """Parse `orders`, or `orders:0,2-4`.

        Raises:
            ValueError: The text has another form. The message describes the allowed form.
        """
        match = _CHOICE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} must be TOPIC or TOPIC:PARTITIONS, for example orders or orders:0,2-4")
        if match["numbers"] is None:
            return cls(match["topic"])
        numbers: set[int] = set()
        for part in match["numbers"].split(","):
            first, _, last = part.partition("-")
            low, high = int(first), int(last or first)
            if not low <= high < _MAX_PARTITIONS:
                raise ValueError(f"{text!r}: {part} is no range of partitions")
            numbers.update(range(low, high + 1))
        return cls(match["topic"], tuple(sorted(numbers)))

    def covers(self, partition: TopicPartition) -> bool:
        """Return whether the choice includes the partition. The partition need not exist."""
        return partition.topic == self.topic and (self.partitions is None or partition.partition in self.partitions)


def resolve(choices: Iterable[TopicChoice], cluster: ClusterMetadata) -> list[TopicPartition]:
    """Return the chosen partitions, in order.

    Raises:
        UnknownTopicError: A topic does not exist (or the topic's own error).
        GroupChangeError: A partition does not exist.
    """
    found: set[TopicPartition] = set()
    for choice in choices:
        topic = cluster.topics.get(choice.topic)
        if topic is None or not topic.partitions:
            (code,) = cluster.missing([choice.topic]).values()
            raise kafka_error(code, f"topic {choice.topic!r}")
        for number in topic.partitions if choice.partitions is None else choice.partitions:
            if number not in topic.partitions:
                raise GroupChangeError(
                    f"{choice.topic}-{number} does not exist: "
                    f"topic {choice.topic!r} has {counted(len(topic.partitions), 'partition')}, from 0 on"
                )
            found.add(TopicPartition(choice.topic, number))
    return sorted(found)
