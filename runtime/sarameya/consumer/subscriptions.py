"""Partitions read from one broker, and the choice of those that its next fetch names.

Owns the contents of the fetch session. Changes of a partition's room or position are noted here (`changed`), and
`settle` passes them to the session before a fetch. It looks only at changed partitions, and at those with messages that
are being taken, since their room depends on the budget. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.model import TopicPartition
from sarameya.protocol.fetch.fetch_session import FetchSession, PartitionFetch


class Subscriptions:
    """Partitions of one broker. `now` is on trio's clock."""

    def __init__(self) -> None:
        self.session = FetchSession()
        self.names_by_id = True
        """True if the next fetch may name topics by id (KIP-516): all ids are known."""
        self.fetch_size = 0
        """Bytes that the next fetch requests of each partition."""
        self.hot: dict[TopicPartition, None] = {}
        """Wanted partitions that are likely to have records."""
        self.holding: dict[PartitionConsumer, None] = {}
        """Partitions with messages that are being taken, as of the last `settle`."""
        self.leased: dict[PartitionConsumer, None] = {}
        """Partitions that are read from here, or not from a nearer replica, for a limited time."""
        self._subscribed: dict[TopicPartition, PartitionConsumer] = {}
        self._changed: dict[PartitionConsumer, None] = {}
        self._without_topic_id: dict[PartitionConsumer, None] = {}
        self._topics: dict[UUID, str] = {}

    def __iter__(self) -> Iterator[PartitionConsumer]:
        return iter(tuple(self._subscribed.values()))

    def __contains__(self, consumer: PartitionConsumer) -> bool:
        return self._subscribed.get(consumer.partition) is consumer

    def get(self, partition: TopicPartition) -> PartitionConsumer | None:
        """Return the consumer that reads this partition from here."""
        return self._subscribed.get(partition)

    def topic(self, topic_id: UUID) -> str:
        """Return the name of a topic that is, or was, read here; empty if there is none."""
        return self._topics.get(topic_id, "")

    def add(self, consumer: PartitionConsumer, now: float) -> None:
        """Add a partition. Call `changed` afterwards."""
        self._subscribed[consumer.partition] = consumer
        if self.session.known(consumer.partition) is not None:
            # The broker would report nothing until there is something new to the previous reader.
            self.session.begin_anew()
        if consumer.source.lease_until > now:
            self.leased[consumer] = None

    def remove(self, consumer: PartitionConsumer) -> None:
        """Remove a partition that is here: nobody gets a response on its way."""
        del self._subscribed[consumer.partition]
        for those in (self._changed, self.holding, self.leased, self._without_topic_id):
            those.pop(consumer, None)
        self._want_no_more(consumer.partition)

    def changed(self, consumer: PartitionConsumer) -> bool:
        """Note that the room or the position may have changed. Return whether the partition is read here."""
        if self._subscribed.get(consumer.partition) is not consumer:
            return False
        self._changed[consumer] = None
        return True

    def expired(self, now: float) -> Iterable[PartitionConsumer]:
        """Return the partitions whose lease has ended, and remove their leases."""
        over = [consumer for consumer in self.leased if consumer.source.lease_until <= now]
        for consumer in over:
            del self.leased[consumer]
        return over

    def settle(self, fetch_size: int, now: float) -> None:
        """Pass the wanted partitions to the session, with `fetch_size` bytes for each."""
        again = self._changed | self.holding
        for consumer in again:
            self._note_topic_id(consumer)
        names_by_id = not self._without_topic_id
        if names_by_id != self.names_by_id:
            self.session.begin_anew()  # to the broker, a partition under another name is another partition
        if fetch_size != self.fetch_size or names_by_id != self.names_by_id:
            self.fetch_size, self.names_by_id = fetch_size, names_by_id
            again = dict.fromkeys(self._subscribed.values())
        self._changed, self.holding = {}, {}
        for consumer in again:
            cursor, partition = consumer.cursor, consumer.partition
            if consumer.share.held and not (consumer.is_paused or consumer.is_backpressured):
                self.holding[consumer] = None
            if not consumer.is_wanted:
                consumer.source.left_out(now)
                self._want_no_more(partition)
                continue
            consumer.source.named()
            topic_id = cursor.topic_id if names_by_id else None
            self.session.put(partition, PartitionFetch(cursor.position, fetch_size, cursor.leader_epoch, topic_id))
            if not consumer.source.found_nothing:
                self.hot[partition] = None

    def cool(self) -> Iterable[TopicPartition]:
        """Return the partitions that were likely to have records, and reset that: a response has arrived."""
        cold, self.hot = self.hot, {}
        return cold

    def _want_no_more(self, partition: TopicPartition) -> None:
        self.session.drop(partition)
        self.hot.pop(partition, None)

    def _note_topic_id(self, consumer: PartitionConsumer) -> None:
        if (topic_id := consumer.cursor.topic_id) is None:
            self._without_topic_id[consumer] = None
        else:
            self._without_topic_id.pop(consumer, None)
            self._topics[topic_id] = consumer.partition.topic
