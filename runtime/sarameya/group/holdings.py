"""What a session's member has: what is assigned to it and not given up, and what of that is being given up.

Keeps those who go by it at what it is: the handler's `Session` and, of the logs, whose topics' ids are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable

from sarameya.group.session import Session
from sarameya.group.source import LogFacts
from sarameya.model import Generation, TopicPartition, by_topic
from sarameya.protocol.subscription import Wanted, wants


class Holdings:
    """One session's. When something is given up is the session run's."""

    def __init__(self, session: Session, logs: LogFacts) -> None:
        self._session = session
        self._logs = logs
        self.owned: frozenset[TopicPartition] = frozenset()
        """What is assigned to us and not given up."""
        self.leaving: frozenset[TopicPartition] = frozenset()
        """What is being given up."""
        self.leaving_since = 0.0
        """When that began, the last time, on trio's clock."""

    def own(self, partitions: frozenset[TopicPartition], generation: Generation) -> None:
        """These now, under that generation as far as commits go."""
        self.owned = partitions
        self._logs.keep({partition.topic for partition in partitions})
        self._session._moved(generation, by_topic(sorted(partitions)))

    def leave(self, partitions: Iterable[TopicPartition], now: float) -> None:
        """These are being given up."""
        self.leaving, self.leaving_since = frozenset(partitions), now

    def left(self, generation: Generation) -> None:
        """What was being given up is."""
        gone, self.leaving = self.leaving, frozenset()
        self.own(self.owned - gone, generation)

    def unsubscribed(self, wanted: Wanted | None) -> list[TopicPartition]:
        """What the user no longer wants. (A topic that is missing from the metadata may be back at once.)"""
        return [partition for partition in self.owned if wanted is None or not wants(wanted, partition.topic)]
