"""The paused partitions of a group, for the group's whole lifetime. Pure.

A pause is the user's wish, not a session's state. It holds whatever the group assigns to this member, and may name
partitions that other members own. Claims watch it, and stop returning messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs

from sarameya.model import TopicPartition
from sarameya.observe import Observer, PartitionsPaused, PartitionsResumed


@attrs.frozen(slots=True)
class Paused:
    """The paused partitions: those `named` or, if `everything` is set, all except those named.

    Check with `partition in paused`.
    """

    everything: bool = False
    named: frozenset[TopicPartition] = frozenset()

    def __contains__(self, partition: TopicPartition) -> bool:
        return (partition in self.named) != self.everything

    def __bool__(self) -> bool:
        return self.everything or bool(self.named)


class Watcher(Protocol):
    """A claim, as seen by `Pauses`. It is notified at once, and at each change."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    def _set_paused(self, paused: bool) -> None: ...


class Pauses:
    """The paused partitions, and the claims to notify.

    `pause_all` includes partitions that are assigned later. (sarama's PauseAll covers only those that are assigned when
    it is called.) `resume` after it makes exceptions: those partitions are read, and all others stay paused until
    `resume_all`, also those assigned later.
    """

    def __init__(self, group: str, observer: Observer) -> None:
        self._group = group
        self._observer = observer
        self._now = Paused()
        # In order, so that a run under virtual time can be repeated to the letter.
        self._watchers: dict[TopicPartition, dict[Watcher, None]] = {}

    @property
    def now(self) -> Paused:
        """The partitions that are paused now."""
        return self._now

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause these partitions. Those that are paused already stay so."""
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
        """Pause every partition without exceptions, also those assigned later."""
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

    def _change(self, everything: bool, named: frozenset[TopicPartition], touched: Iterable[TopicPartition]) -> None:
        """Set the pauses, and notify the watchers of `touched` partitions that have changed."""
        before, self._now = self._now, Paused(everything, named)
        for partition in touched:
            if (partition in before) != (partition in self._now):
                for watcher in tuple(self._watchers.get(partition, ())):
                    watcher._set_paused(partition in self._now)


class Pausing:
    """The user's methods, for a class that has `_pauses`. Not async; call them on the event loop."""

    _pauses: Pauses

    @property
    def paused(self) -> Paused:
        """The partitions that are paused now: `partition in group.paused`."""
        return self._pauses.now

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause partitions: no more is fetched of them, and what is buffered is kept.

        Their claims return nothing from the next step of an iterator on, not even the rest of a batch. The position
        stays; marks and commits continue as usual. A partition that is not assigned now is paused once it is.

        Raises:
            TypeError: One is not a TopicPartition.
        """
        self._pauses.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume partitions where they stopped. After `pause_all` they are exceptions: all others stay paused.

        Buffered messages come at once. The next fetch from the partition's broker includes it again, at most
        `Config.fetch_max_wait` later.
        """
        self._pauses.resume(partitions)

    def pause_all(self) -> None:
        """Pause all assigned partitions, and all that will be assigned."""
        self._pauses.pause_all()

    def resume_all(self) -> None:
        """Resume all partitions, however they were paused."""
        self._pauses.resume_all()


def _checked(partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
    checked = frozenset(partitions)
    for partition in checked:
        if not (isinstance(partition, tuple) and len(partition) == 2 and isinstance(partition[1], int)):
            raise TypeError(f"{partition!r} is no TopicPartition; pause and resume take several, [TopicPartition(...)]")
    return frozenset(TopicPartition(*partition) for partition in checked)
