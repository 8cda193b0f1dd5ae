"""Partitions subscribed at one broker, and the choice of the partitions that its next fetch names.

`Subscriptions` owns the contents of the fetch session. `changed` records that a partition's room or position may have
changed, and `update_session` passes the changes to the session before a fetch. It checks only two kinds of partitions:
the changed ones, and those that hold bytes of the budget, since their room also depends on the budget. No method waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.model import TopicPartition
from sarameya.protocol.fetch.fetch_session import FetchSession, PartitionFetch


class Subscriptions:
    """Partitions subscribed at one broker. `now` is a time on trio's clock."""

    def __init__(self) -> None:
        self.session = FetchSession()
        self.names_by_id = True
        """True if the next fetch may name topics by id (KIP-516): all ids are known."""
        self.fetch_size = 0
        """Bytes that the next fetch requests of each partition."""
        self.hot: dict[TopicPartition, None] = {}
        """Wanted partitions that are likely to have records: their last fetch had some, or has no response yet."""
        self.holding: dict[PartitionConsumer, None] = {}
        """Partitions that hold bytes of the budget and are fetched on (neither paused nor backpressured).

        As of the last `update_session`.
        """
        self.leased: dict[PartitionConsumer, None] = {}
        """Partitions with a lease: until its end they are read from this nearer replica, or from their leader."""
        self._subscribed: dict[TopicPartition, PartitionConsumer] = {}
        self._changed: dict[PartitionConsumer, None] = {}
        self._without_topic_id: dict[PartitionConsumer, None] = {}
        self._topics: dict[UUID, str] = {}

    def __iter__(self) -> Iterator[PartitionConsumer]:
        return iter(tuple(self._subscribed.values()))

    def __contains__(self, consumer: PartitionConsumer) -> bool:
        return self._subscribed.get(consumer.partition) is consumer

    def get(self, partition: TopicPartition) -> PartitionConsumer | None:
        """Return the consumer of this partition, or None if the partition is not subscribed at this broker."""
        return self._subscribed.get(partition)

    def topic(self, topic_id: UUID) -> str:
        """Return the name of a topic of present or former subscriptions; empty for any other id."""
        return self._topics.get(topic_id, "")

    def add(self, consumer: PartitionConsumer, now: float) -> None:
        """Add a partition. Call `changed` afterwards."""
        self._subscribed[consumer.partition] = consumer
        if self.session.known(consumer.partition) is not None:
            # In the same session, the broker would send only what is new since the fetches of the previous consumer.
            self.session.begin_anew()
        if consumer.source.lease_until > now:
            self.leased[consumer] = None

    def remove(self, consumer: PartitionConsumer) -> None:
        """Remove a subscribed partition. A response that is on its way will not be delivered."""
        del self._subscribed[consumer.partition]
        for consumers in (self._changed, self.holding, self.leased, self._without_topic_id):
            consumers.pop(consumer, None)
        self._drop(consumer.partition)

    def changed(self, consumer: PartitionConsumer) -> bool:
        """Record that the room or the position may have changed. Return whether the partition is subscribed here."""
        if self._subscribed.get(consumer.partition) is not consumer:
            return False
        self._changed[consumer] = None
        return True

    def expired(self, now: float) -> Iterable[PartitionConsumer]:
        """Return the partitions whose lease has ended, and remove their leases."""
        expired = [consumer for consumer in self.leased if consumer.source.lease_until <= now]
        for consumer in expired:
            del self.leased[consumer]
        return expired

    def update_session(self, fetch_size: int, now: float) -> None:
        """Pass the wanted partitions to the session, with `fetch_size` bytes for each."""
        to_check = self._changed | self.holding
        for consumer in to_check:
            self._update_topic_id(consumer)
        names_by_id = not self._without_topic_id
        if names_by_id != self.names_by_id:
            self.session.begin_anew()  # to the broker, a partition under another name is another partition
        if fetch_size != self.fetch_size or names_by_id != self.names_by_id:
            self.fetch_size, self.names_by_id = fetch_size, names_by_id
            to_check = dict.fromkeys(self._subscribed.values())
        self._changed, self.holding = {}, {}
        for consumer in to_check:
            cursor, partition = consumer.cursor, consumer.partition
            if consumer.share.held and not (consumer.is_paused or consumer.is_backpressured):
                self.holding[consumer] = None
            if not consumer.is_wanted:
                consumer.source.left_out(now)
                self._drop(partition)
                continue
            consumer.source.named()
            topic_id = cursor.topic_id if names_by_id else None
            self.session.put(partition, PartitionFetch(cursor.position, fetch_size, cursor.leader_epoch, topic_id))
            if not consumer.source.found_nothing:
                self.hot[partition] = None

    def reset_hot(self) -> Iterable[TopicPartition]:
        """Empty `hot`, since a response has arrived. Return the partitions that were in it."""
        were_hot, self.hot = self.hot, {}
        return were_hot

    def _drop(self, partition: TopicPartition) -> None:
        self.session.drop(partition)
        self.hot.pop(partition, None)

    def _update_topic_id(self, consumer: PartitionConsumer) -> None:
        if (topic_id := consumer.cursor.topic_id) is None:
            self._without_topic_id[consumer] = None
        else:
            self._without_topic_id.pop(consumer, None)
            self._topics[topic_id] = consumer.partition.topic
