"""Fetch session with one broker (KIP-227), the client's half. Pure.

The broker remembers the requested partitions, so a request names only those that have changed: a thousand quiet
partitions do not travel. An absent partition is unchanged, on both sides. A request names the partitions that it drops
as forgotten. The last response decides about the session. If the broker keeps none (too many sessions, or an old
broker), each request names everything. If one is lost, the next request names everything and starts another.

A rule that is easily broken:

- A partition that is dropped and wanted again unchanged is not named. Only a response to a request that named
  everything can have left one out. Test:
  `tests/protocol/test_fetch_session.py::test_partition_dropped_and_added_again_is_not_sent`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import attrs

from sarameya.model import NO_LEADER_EPOCH, TopicPartition

NO_SESSION_ID = 0
_FIRST_EPOCH = 0
NO_SESSION_EPOCH = -1
"""Epoch of a fetch outside of any session; an existing session stays as it is."""
_LAST_EPOCH = 2**31 - 1


@attrs.frozen(slots=True)
class PartitionFetch:
    """Parameters of one partition in a fetch."""

    position: int
    max_bytes: int
    leader_epoch: int = NO_LEADER_EPOCH
    topic_id: uuid.UUID | None = None


@attrs.frozen(slots=True)
class FetchPlan:
    """Session fields and partitions of the next request."""

    session_id: int
    session_epoch: int
    asks: Mapping[TopicPartition, PartitionFetch]
    forgotten: Sequence[tuple[TopicPartition, uuid.UUID | None]] = ()

    @property
    def is_full(self) -> bool:
        """True if the request names every wanted partition, so that the response covers each of them."""
        return self.session_epoch in (_FIRST_EPOCH, NO_SESSION_EPOCH)


class FetchSession:
    """Wanted partitions of one broker, and those that the broker knows. One request at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION_ID
        self._epoch = _FIRST_EPOCH
        # In the order of a full request: the partition that was served last is last.
        self._wanted: dict[TopicPartition, PartitionFetch] = {}
        # The partitions that the broker knows, or will know once the current request has reached it.
        self._known: dict[TopicPartition, PartitionFetch] = {}
        self._changed: dict[TopicPartition, PartitionFetch] = {}
        self._forgotten: dict[tuple[TopicPartition, uuid.UUID | None], None] = {}
        self._begins_anew = False

    @property
    def wanted(self) -> Mapping[TopicPartition, PartitionFetch]:
        """Partitions of the next request, known to the broker or not."""
        return self._wanted

    def known(self, partition: TopicPartition) -> PartitionFetch | None:
        """Return the parameters that the broker uses for the partition, and that its next response is about."""
        return self._known.get(partition)

    def put(self, partition: TopicPartition, ask: PartitionFetch) -> None:
        """Request this partition from now on, with these parameters."""
        if self._wanted.get(partition) == ask:
            return
        self._wanted.pop(partition, None)
        self._wanted[partition] = ask
        known = self._known.get(partition)
        if known is not None and known.topic_id != ask.topic_id:
            # The topic id has changed. Brokers that use names cannot forget the one and add the other in one request.
            self.begin_anew()
        self._forgotten.pop((partition, ask.topic_id), None)
        if known == ask:
            self._changed.pop(partition, None)
        else:
            self._changed[partition] = ask

    def drop(self, partition: TopicPartition) -> None:
        """Stop requesting the partition."""
        if self._wanted.pop(partition, None) is None:
            return
        self._changed.pop(partition, None)
        known = self._known.get(partition)
        if known is not None:
            self._forgotten[partition, known.topic_id] = None

    def plan(self) -> FetchPlan:
        """Return the next request. Report its result with `answered`, `refused` or, if it is lost, `begin_anew`."""
        if self._begins_anew or self._epoch == _FIRST_EPOCH:
            self._begins_anew, self._epoch = False, _FIRST_EPOCH
            plan = FetchPlan(self._id, _FIRST_EPOCH, dict(self._wanted))
            self._known = dict(self._wanted)
        else:
            plan = FetchPlan(self._id, self._epoch, self._changed, tuple(self._forgotten))
            for partition, _ in self._forgotten:
                del self._known[partition]
            self._known |= self._changed
        self._changed, self._forgotten = {}, {}
        return plan

    def answered(self, session_id: int) -> None:
        """Report that the broker has answered and keeps this session."""
        self._epoch = _FIRST_EPOCH if session_id == NO_SESSION_ID else self._epoch % _LAST_EPOCH + 1
        self._id = session_id

    def refused(self) -> None:
        """Report that the broker does not know the session or its epoch: start another."""
        self._id, self._epoch = NO_SESSION_ID, _FIRST_EPOCH

    def begin_anew(self) -> None:
        """Name everything in the next request, and start a new session with it.

        Needed if a response was lost, or if the broker must treat everything as new.
        """
        self._begins_anew = True
