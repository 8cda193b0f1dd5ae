"""The subscription of a member: its current topics, its content in a join, and a check of the last assignment.

The rules are pure (`protocol/subscription.py`). This module applies them to the cluster's metadata.

A rule that is easily broken:

- Waits before a join are bounded: the group waits for the join, and removes a late member, which may still be reading.
  Test: `tests/group/test_late_responses.py::test_join_of_a_pattern_waits_briefly_for_metadata`.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.protocol.assignors import calling
from sarameya.protocol.assignors.base import Assignor, Subscription
from sarameya.protocol.cluster.metadata import ClusterMetadata
from sarameya.protocol.membership.messages import SendJoin
from sarameya.protocol.rebalance import encode_subscription
from sarameya.protocol.subscription import Growth, TopicWatch, Wanted, resolve

_LOOK_AGAIN = 1.0
"""Seconds between two look-ups of a topic that seems to be deleted."""


class TopicSubscription:
    """The subscription of one member. `watch` has the topics and partition counts that the leader assigned."""

    def __init__(
        self,
        wanted: Wanted,
        assignors: Mapping[str, Assignor],
        metadata: MetadataRefresher,
        watch: TopicWatch,
        growth: Growth,
        rack_id: str,
        look_up_timeout: float,
    ) -> None:
        """Create a subscription. A join may wait `look_up_timeout` seconds for fresh metadata."""
        self.wanted: Wanted | None = wanted
        """None after `change(None)`."""
        self._assignors = assignors
        self._metadata = metadata
        self._watch = watch
        self._growth = growth
        self._rack_id = rack_id
        self._look_up_timeout = look_up_timeout
        # The topics of the last join, and the subscription that they were resolved from.
        self._joined_with: tuple[str, ...] = ()
        self._joined_for: Wanted | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The subscribed topics, according to the newest metadata."""
        return resolve(self.wanted, self._metadata.current) if self.wanted is not None else ()

    @property
    def _has_pattern(self) -> bool:
        return self.wanted is not None and not isinstance(self.wanted, tuple)

    def change(self, wanted: Wanted | None) -> None:
        """Subscribe to other topics; None for nothing."""
        self.wanted = wanted
        self.follow_topics()
        self._metadata.request_refresh()

    def follow_topics(self) -> None:
        """Make the metadata refresher fetch the subscribed topics."""
        self._metadata.follow_all(self._has_pattern)
        if isinstance(self.wanted, tuple):
            self._metadata.follow(self.wanted)
        self.record_added_partitions(self._metadata.current)

    async def for_join(self, join: SendJoin) -> list[tuple[str, bytes]]:
        """Return pairs of an assignor's name and an encoded subscription, in order of preference.

        Raises:
            AssignorError: An assignor raised.
        """
        if self._has_pattern:
            # Metadata should be fresh before the join, or another rebalance follows. But the group waits for the join,
            # and removes members that join late: after the timeout the known metadata must do.
            with trio.move_on_after(self._look_up_timeout):
                self.record_added_partitions(await self._metadata.refresh())
        self._joined_with, self._joined_for = self.topics, self.wanted
        return [
            (
                name,
                encode_subscription(
                    Subscription(
                        topics=self._joined_with,
                        user_data=calling.subscription_user_data(assignor),
                        owned_partitions=join.owned,
                        generation_id=join.owned_since,
                        rack_id=self._rack_id,
                    )
                ),
            )
            for name, assignor in self._assignors.items()
        ]

    async def next_metadata(self) -> ClusterMetadata:
        """Return the next metadata that arrives. While a topic seems to be deleted, request metadata every second."""
        while True:
            with trio.CancelScope() as scope:
                if self._watch.has_doubts:
                    scope.deadline = trio.current_time() + _LOOK_AGAIN
                return await self._metadata.next()
            self._metadata.request_refresh()

    def outdated(self, metadata: ClusterMetadata, *, is_leader: bool) -> str | None:
        """Return the reason why the last assignment no longer fits the topics; None if it fits."""
        if self.wanted is None:
            return None
        topics = self.topics
        if topics == self._joined_with:
            self._joined_for = self.wanted
        # If the same pattern matches fewer topics, the metadata may be incomplete: the leader's watch decides.
        elif not self._has_pattern or self.wanted != self._joined_for or set(topics) - set(self._joined_with):
            return f"subscribed to {', '.join(topics)}"
        if is_leader and (changed := self._watch.changes(metadata)):
            self._growth.forget(topic for topic, count in changed.items() if not count)
            return f"partition counts have changed: {changed}"
        return None

    def record_added_partitions(self, metadata: ClusterMetadata) -> None:
        """Record the partitions that were added since the last metadata: they are read from the start."""
        self._growth.update(metadata)
