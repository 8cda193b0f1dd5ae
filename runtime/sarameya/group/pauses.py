"""Which partitions are paused: one `Pauses` a group, for as long as there is the group. Pure.

What is paused is the user's wish, not a session's state: it is kept whatever the group assigns to this member, and
names partitions that are other members' now. Claims watch it, and hold back what they have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs

from sarameya.model import TopicPartition
from sarameya.observe import Observer, PartitionsPaused, PartitionsResumed


@attrs.frozen(slots=True)
class Paused:
    """The partitions that are held back: those `named` or, where `everything` is, all but those named.

    `partition in paused` is the question to ask.
    """

    everything: bool = False
    named: frozenset[TopicPartition] = frozenset()

    def __contains__(self, partition: TopicPartition) -> bool:
        return (partition in self.named) != self.everything

    def __bool__(self) -> bool:
        return self.everything or bool(self.named)


class Watcher(Protocol):
    """A claim, as far as pausing goes: told at once what it is, and whenever that changes."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    def _set_paused(self, paused: bool) -> None: ...


class Pauses:
    """What is paused, and who is told.

    `pause_all` covers what is assigned later, too. (sarama's PauseAll names what is assigned when it is called, and
    a partition that comes for the first time is read.) `resume` after it makes exceptions: those go on, and all others
    stay paused, also those still to come, until `resume_all`.
    """

    def __init__(self, group: str, observer: Observer) -> None:
        self._group = group
        self._observer = observer
        self._now = Paused()
        # In order, so that a run under virtual time can be repeated to the letter.
        self._watchers: dict[TopicPartition, dict[Watcher, None]] = {}

    @property
    def now(self) -> Paused:
        """What is paused now."""
        return self._now

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Pause these; those that are paused already stay so."""
        changed = sorted(partition for partition in _checked(partitions) if partition not in self._now)
        if changed:
            self._change(self._now.everything, self._now.named ^ frozenset(changed), changed)
            self._observer(PartitionsPaused(self._group, tuple(changed), everything=False))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Resume these, whether they were paused by name or with everything."""
        changed = sorted(partition for partition in _checked(partitions) if partition in self._now)
        if changed:
            self._change(self._now.everything, self._now.named ^ frozenset(changed), changed)
            self._observer(PartitionsResumed(self._group, tuple(changed), everything=False))

    def pause_all(self) -> None:
        """Pause every partition, those still to come included, and without exceptions."""
        if self._now != Paused(everything=True):
            self._change(True, frozenset(), tuple(self._watchers))
            self._observer(PartitionsPaused(self._group, (), everything=True))

    def resume_all(self) -> None:
        """Nothing is paused any more."""
        if self._now:
            self._change(False, frozenset(), tuple(self._watchers))
            self._observer(PartitionsResumed(self._group, (), everything=True))

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` whether its partition is paused, now and at each change."""
        self._watchers.setdefault(watcher.topic_partition, {})[watcher] = None
        watcher._set_paused(watcher.topic_partition in self._now)

    def unwatch(self, watcher: Watcher) -> None:
        """Tell it no more."""
        partition = watcher.topic_partition
        watchers = self._watchers.get(partition, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._watchers.pop(partition, None)

    def _change(self, everything: bool, named: frozenset[TopicPartition], touched: Iterable[TopicPartition]) -> None:
        """Only those of `touched` partitions may have changed."""
        before, self._now = self._now, Paused(everything, named)
        for partition in touched:
            if (partition in before) != (partition in self._now):
                for watcher in tuple(self._watchers.get(partition, ())):
                    watcher._set_paused(partition in self._now)


class Pausing:
    """The user's side of it, for who owns `_pauses` or was given it. Not async; call it on the event loop."""

    _pauses: Pauses

    @property
    def paused(self) -> Paused:
        """What is paused now: `partition in group.paused`."""
        return self._pauses.now

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hold these partitions back: no more is fetched of them, and what is fetched already is kept.

        Their claims hand out nothing more from their iterators' next step on, not even the rest of a batch; the
        position stays, marks and commits go on as ever. Partitions that are not assigned here, now or any more, are
        paused when they are. Raises TypeError for what is no TopicPartition.
        """
        self._pauses.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with these where they stopped. After `pause_all` they are exceptions: all others stay paused.

        What was fetched comes at once; more is asked for in the next fetch that goes to the partition's broker, so at
        most `Config.fetch_max_wait` later.
        """
        self._pauses.resume(partitions)

    def pause_all(self) -> None:
        """Hold back everything that is assigned, and that will be."""
        self._pauses.pause_all()

    def resume_all(self) -> None:
        """Go on with everything, however it was paused."""
        self._pauses.resume_all()


def _checked(partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
    checked = frozenset(partitions)
    for partition in checked:
        if not (isinstance(partition, tuple) and len(partition) == 2 and isinstance(partition[1], int)):
            raise TypeError(f"{partition!r} is no TopicPartition; pause and resume take several, [TopicPartition(...)]")
    return frozenset(TopicPartition(*partition) for partition in checked)
