"""`__consumer_offsets` as a log: coordinators write commits and group metadata to it, and read them back. Pure.

`OffsetsJournal` implements `groups.model.stored.Journal`. Commits and group metadata become keyed records, which any
client can read.

`read_groups` is the reverse: it returns the groups that a coordinator loads from a partition. The last record of a key
counts; a tombstone deletes it. `superseded` finds batches that are no longer needed, as Kafka's log cleaner does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sarameya.embedded.groups.model.stored import GroupImage, GroupRecord, StoredOffset
from sarameya.embedded.log.partition_log import LogAppendInfo
from sarameya.embedded.offsets_topic.offsets_records import (
    OffsetKey,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group,
    read_key,
    read_offset,
)
from sarameya.embedded.topics import EmbeddedPartition
from sarameya.errors import RecordError
from sarameya.model import Message, TopicPartition
from sarameya.protocol.records.batch_codec import build, decode, split

log = logging.getLogger(__name__)


class OffsetsJournal:
    """Writes the records of one coordinator's groups.

    Args:
        partition_of: Finds a group's partition of the topic.
        append: Appends a batch to a partition.
        wall_clock: Seconds since 1970, for record timestamps.
    """

    def __init__(
        self,
        partition_of: Callable[[str], EmbeddedPartition],
        append: Callable[[EmbeddedPartition, bytes], LogAppendInfo],
        wall_clock: Callable[[], float],
    ) -> None:
        self._partition_of = partition_of
        self._append = append
        self._wall_clock = wall_clock

    def store_offsets(self, group_id: str, offsets: Mapping[TopicPartition, StoredOffset | None]) -> None:
        """Write one batch with a record for each partition; None is a tombstone."""
        records = {
            offset_key(group_id, partition): None if offset is None else offset_value(offset)
            for partition, offset in offsets.items()
        }
        self._store(group_id, records)

    def store_group(self, group_id: str, record: GroupRecord | None) -> None:
        """Write one record; None is a tombstone."""
        self._store(group_id, {group_key(group_id): None if record is None else group_value(record)})

    def _store(self, group_id: str, records: Mapping[bytes, bytes | None]) -> None:
        if records:
            now = round(self._wall_clock() * 1000)
            batch = build((now, key, value, ()) for key, value in records.items())
            self._append(self._partition_of(group_id), batch)


def read_groups(partition: TopicPartition, batches: Iterable[bytes]) -> list[GroupImage]:
    """Return the groups that a partition's batches contain. Unreadable records are skipped with a warning."""
    groups: dict[str, GroupRecord] = {}
    offsets: dict[str, dict[TopicPartition, StoredOffset]] = {}
    for message in _messages(partition, batches):
        try:
            _apply(message, groups, offsets)
        except ValueError as error:
            log.warning("%s: skipped the record at offset %d: %s", partition, message.offset, error)
    ids = dict.fromkeys([*groups, *(group_id for group_id, commits in offsets.items() if commits)])
    return [GroupImage(group_id, groups.get(group_id), offsets.get(group_id, {})) for group_id in ids]


def _apply(
    message: Message, groups: dict[str, GroupRecord], offsets: dict[str, dict[TopicPartition, StoredOffset]]
) -> None:
    key, value = read_key(message.key or b""), message.value
    if isinstance(key, OffsetKey):
        commits = offsets.setdefault(key.group_id, {})
        if value is None:
            commits.pop(key.partition, None)
        else:
            commits[key.partition] = read_offset(value)
    elif value is None:
        groups.pop(key.group_id, None)
    else:
        groups[key.group_id] = read_group(value)


def superseded(partition: TopicPartition, batches: Sequence[bytes]) -> set[int]:
    """Return the indexes of batches whose records are all replaced by later records.

    A batch that cannot be read counts as replaced.
    """
    later_keys: set[bytes | None] = set()
    replaced: set[int] = set()
    for index in range(len(batches) - 1, -1, -1):
        keys = {message.key for message in _messages(partition, [batches[index]])}
        if keys <= later_keys:
            replaced.add(index)
        later_keys |= keys
    return replaced


def _messages(partition: TopicPartition, batches: Iterable[bytes]) -> Iterator[Message]:
    for data in batches:
        try:
            for raw in split(data, partition, 0):
                yield from decode(raw, partition)
        except RecordError as error:
            log.warning("%s: skipped a batch: %s", partition, error)
