"""The paused partitions of a `ConsumerGroup` or `Consumer`, for its whole lifetime. Pure.

A pause does not belong to a session. It outlasts rebalances, and may name partitions that other members own. Claims are
notified of pauses, and stop returning messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs

from sarameya.model import TopicPartition
from sarameya.observe import Observer, PartitionsPaused, PartitionsResumed


@attrs.frozen(slots=True)
class Paused:
    """The paused partitions; check with `partition in paused`.

    Attributes:
        everything: If True, all partitions except `named` are paused; if False, only those `named`.
        named: The partitions that were paused or, if `everything` is True, resumed one by one.
    """

    everything: bool = False
    named: frozenset[TopicPartition] = frozenset()

    def __contains__(self, partition: TopicPartition) -> bool:
        return (partition in self.named) != self.everything

    def __bool__(self) -> bool:
        return self.everything or bool(self.named)


class Watcher(Protocol):
    """A claim, as `Pauses` uses it."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    def _set_paused(self, paused: bool) -> None: ...


class Pauses:
    """The paused partitions, and the claims to notify.

    `pause_all` includes partitions that are assigned later. (sarama's PauseAll covers only the partitions that are
    assigned when it is called.) `resume` after `pause_all` makes exceptions: the resumed partitions are read. All
    others stay paused until `resume_all`, including partitions that are assigned later.
    """

    def __init__(self, group: str, observer: Observer) -> None:
        self._group = group
        self._observer = observer
        self._now = Paused()
        # Dictionaries instead of sets: a run under virtual time must notify in the same order each time.
        self._watchers: dict[TopicPartition, dict[Watcher, None]] = {}

    @property
    def now(self) -> Paused:
        """The partitions that are paused now."""
        return self._now

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause these partitions. Partitions that are paused already stay paused."""
        changed = sorted(partition for partition in _checked(partitions) if partition not in self._now)
        if changed:
            self._change(self._now.everything, self._now.named ^ frozenset(changed), changed)
            self._observer(PartitionsPaused(self._group, tuple(changed), everything=False))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume these partitions, whether they were paused by name or by `pause_all`."""
        changed = sorted(partition for partition in _checked(partitions) if partition in self._now)
        if changed:
            self._change(self._now.everything, self._now.named ^ frozenset(changed), changed)
            self._observer(PartitionsResumed(self._group, tuple(changed), everything=False))

    def pause_all(self) -> None:
        """Pause every partition without exceptions, including partitions that are assigned later."""
        if self._now != Paused(everything=True):
            self._change(True, frozenset(), tuple(self._watchers))
            self._observer(PartitionsPaused(self._group, (), everything=True))

    def resume_all(self) -> None:
        """Resume all partitions."""
        if self._now:
            self._change(False, frozenset(), tuple(self._watchers))
            self._observer(PartitionsResumed(self._group, (), everything=True))

    def watch(self, watcher: Watcher) -> None:
        """Notify `watcher` whether its partition is paused, now and at each change."""
        self._watchers.setdefault(watcher.topic_partition, {})[watcher] = None
        watcher._set_paused(watcher.topic_partition in self._now)

    def unwatch(self, watcher: Watcher) -> None:
        """Stop notifying `watcher`."""
        partition = watcher.topic_partition
        watchers = self._watchers.get(partition, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._watchers.pop(partition, None)

    def _change(self, everything: bool, named: frozenset[TopicPartition], to_check: Iterable[TopicPartition]) -> None:
        """Set the pauses. Notify the watchers of those partitions in `to_check` that have changed."""
        before, self._now = self._now, Paused(everything, named)
        for partition in to_check:
            if (partition in before) != (partition in self._now):
                for watcher in tuple(self._watchers.get(partition, ())):
                    watcher._set_paused(partition in self._now)


class Pausing:
    """Base class with the public methods that pause and resume partitions. Call them on the event loop.

    A subclass sets `_pauses`.
    """

    _pauses: Pauses

    @property
    def paused(self) -> Paused:
        """The partitions that are paused now: `partition in group.paused`."""
        return self._pauses.now

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause partitions: fetching stops, and buffered messages are kept.

        The iterators of their claims return nothing from the next step on, not even the rest of a batch. The position
        stays; marks and commits continue as usual. A partition that is not assigned now is paused once it is.

        Raises:
            TypeError: A value is not a TopicPartition.
        """
        self._pauses.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume partitions where they stopped. After `pause_all`, all other partitions stay paused.

        Buffered messages are returned at once. The next fetch from the partition's broker, at most
        `Config.fetch_max_wait` later, includes the partition again.

        Raises:
            TypeError: A value is not a TopicPartition.
        """
        self._pauses.resume(partitions)

    def pause_all(self) -> None:
        """Pause all partitions that are assigned now or later."""
        self._pauses.pause_all()

    def resume_all(self) -> None:
        """Resume all partitions, however they were paused."""
        self._pauses.resume_all()


def _checked(partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
    checked = frozenset(partitions)
    for partition in checked:
        if not (isinstance(partition, tuple) and len(partition) == 2 and isinstance(partition[1], int)):
            raise TypeError(f"{partition!r} is no TopicPartition; pause and resume take a list, [TopicPartition(...)]")
    return frozenset(TopicPartition(*partition) for partition in checked)
