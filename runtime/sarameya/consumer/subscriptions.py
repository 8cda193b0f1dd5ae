"""The partitions that are read from one broker, and which of them its next fetch names.

Owns the fetch session's wishes: what changes a partition's room, or place, notes it here (`changed`), and `settle` says
the news to the session before a fetch. Only these are looked at then: who may have changed, and who has anything that
is being taken, so that its room depends on the budget. Nothing here waits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from uuid import UUID

from sarameya.consumer.partition_consumer import PartitionConsumer
from sarameya.model import TopicPartition
from sarameya.protocol.fetch_session import Ask, FetchSession


class Subscriptions:
    """One broker's. `now` is on trio's clock."""

    def __init__(self) -> None:
        self.session = FetchSession()
        self.names_by_id = True
        """Whether the next fetch may name topics by their ids (KIP-516): those of all are known."""
        self.fetch_size = 0
        """What the next fetch asks for of each partition, in bytes."""
        self.hot: dict[TopicPartition, None] = {}
        """Wanted, and likely to have something."""
        self.holding: dict[PartitionConsumer, None] = {}
        """Who has anything that is being taken, when last settled."""
        self.leased: dict[PartitionConsumer, None] = {}
        """Who reads from here, or no nearer, for a time only."""
        self._subscribed: dict[TopicPartition, PartitionConsumer] = {}
        self._changed: dict[PartitionConsumer, None] = {}
        self._without_topic_id: dict[PartitionConsumer, None] = {}
        self._topics: dict[UUID, str] = {}

    def __iter__(self) -> Iterator[PartitionConsumer]:
        return iter(tuple(self._subscribed.values()))

    def __contains__(self, consumer: PartitionConsumer) -> bool:
        return self._subscribed.get(consumer.partition) is consumer

    def get(self, partition: TopicPartition) -> PartitionConsumer | None:
        """Who reads this partition from here."""
        return self._subscribed.get(partition)

    def topic(self, topic_id: UUID) -> str:
        """The name of a topic that is, or was, read here; empty where there is none."""
        return self._topics.get(topic_id, "")

    def add(self, consumer: PartitionConsumer, now: float) -> None:
        """Take a partition on. Say then that it has `changed`."""
        self._subscribed[consumer.partition] = consumer
        if self.session.told(consumer.partition) is not None:
            # The broker would say nothing of it before there is something that is new to who was here before.
            self.session.begin_anew()
        if consumer.lease_until > now:
            self.leased[consumer] = None

    def remove(self, consumer: PartitionConsumer) -> None:
        """Let go of a partition that is here: an answer on its way is delivered to nobody."""
        del self._subscribed[consumer.partition]
        for those in (self._changed, self.holding, self.leased, self._without_topic_id):
            those.pop(consumer, None)
        self._want_no_more(consumer.partition)

    def changed(self, consumer: PartitionConsumer) -> bool:
        """There may be room, or less of it, or it stands elsewhere: it is looked at before the next fetch, if it is
        read here. Whether it is."""
        if self._subscribed.get(consumer.partition) is not consumer:
            return False
        self._changed[consumer] = None
        return True

    def expired(self, now: float) -> Iterable[PartitionConsumer]:
        """Whose lease is over. These are leased no longer."""
        over = [consumer for consumer in self.leased if consumer.lease_until <= now]
        for consumer in over:
            del self.leased[consumer]
        return over

    def settle(self, fetch_size: int, now: float) -> None:
        """Say to the session what is wanted now, of each partition so many bytes."""
        again = self._changed | self.holding
        for consumer in again:
            self._note_topic_id(consumer)
        names_by_id = not self._without_topic_id
        if names_by_id != self.names_by_id:
            self.session.begin_anew()  # what is called otherwise is something else to the broker
        if fetch_size != self.fetch_size or names_by_id != self.names_by_id:
            self.fetch_size, self.names_by_id = fetch_size, names_by_id
            again = dict.fromkeys(self._subscribed.values())
        self._changed, self.holding = {}, {}
        for consumer in again:
            cursor, partition = consumer.cursor, consumer.partition
            if consumer.share.held and not (consumer.is_paused or consumer.is_backpressured):
                self.holding[consumer] = None
            if not consumer.is_wanted:
                consumer.unfetched_since = min(consumer.unfetched_since, now)
                self._want_no_more(partition)
                continue
            consumer.unfetched_since = math.inf
            topic_id = cursor.topic_id if names_by_id else None
            self.session.put(partition, Ask(cursor.position, fetch_size, cursor.leader_epoch, topic_id))
            if not consumer.found_nothing:
                self.hot[partition] = None

    def cool(self) -> Iterable[TopicPartition]:
        """An answer is in: what was likely to have something is not any more, unless it is said anew."""
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
