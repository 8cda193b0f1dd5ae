"""Fetch session with one broker (KIP-227), the client's half. Pure.

The broker remembers the requested partitions, so a request contains only those that have changed: a thousand quiet
partitions cost nothing. In requests and responses, an absent partition is unchanged. A request lists the partitions
that it drops as forgotten. Each response has the id of the session, or 0 if the broker keeps none (too many sessions,
or an old broker). Then, and after a lost response, the next request is full: it contains all partitions, and starts
another session.

A rule that is easily broken:

- A partition that is dropped, and then wanted again unchanged, is in neither list of the next request. Only a response
  to a full request must have every partition. Test:
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
"""Epoch of a fetch outside of any session. An existing session is not changed by it."""
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
    partitions: Mapping[TopicPartition, PartitionFetch]
    """The partitions that the request contains: all of them, or the changed ones."""
    forgotten: Sequence[tuple[TopicPartition, uuid.UUID | None]] = ()
    """Partitions to remove from the session, with their topic ids."""

    @property
    def is_full(self) -> bool:
        """True if the request contains every wanted partition. The response then contains all of them, too."""
        return self.session_epoch in (_FIRST_EPOCH, NO_SESSION_EPOCH)


class FetchSession:
    """Wanted partitions of one broker, and those that the broker knows. One request at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION_ID
        self._epoch = _FIRST_EPOCH
        # In the order of a full request: the partition that was served last is last.
        self._wanted: dict[TopicPartition, PartitionFetch] = {}
        # The partitions that the broker knows, or will know when it has received the last request.
        self._known: dict[TopicPartition, PartitionFetch] = {}
        self._changed: dict[TopicPartition, PartitionFetch] = {}
        self._forgotten: dict[tuple[TopicPartition, uuid.UUID | None], None] = {}
        self._begins_anew = False

    @property
    def wanted(self) -> Mapping[TopicPartition, PartitionFetch]:
        """Partitions to fetch, known to the broker or not."""
        return self._wanted

    def known(self, partition: TopicPartition) -> PartitionFetch | None:
        """Return the parameters that the broker uses for the partition, and that its next response is about."""
        return self._known.get(partition)

    def put(self, partition: TopicPartition, fetch: PartitionFetch) -> None:
        """Request this partition from now on, with these parameters."""
        if self._wanted.get(partition) == fetch:
            return
        self._wanted.pop(partition, None)
        self._wanted[partition] = fetch
        known = self._known.get(partition)
        if known is not None and known.topic_id != fetch.topic_id:
            # Brokers that use topic names cannot forget the earlier topic and add the new topic in one request.
            self.begin_anew()
        self._forgotten.pop((partition, fetch.topic_id), None)
        if known == fetch:
            self._changed.pop(partition, None)
        else:
            self._changed[partition] = fetch

    def drop(self, partition: TopicPartition) -> None:
        """Stop requesting the partition."""
        if self._wanted.pop(partition, None) is None:
            return
        self._changed.pop(partition, None)
        known = self._known.get(partition)
        if known is not None:
            self._forgotten[partition, known.topic_id] = None

    def plan(self) -> FetchPlan:
        """Return the next request. Report its result with `answered`, `refused` or (no response) `begin_anew`."""
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
        """Report a response without error, with the session's id: NO_SESSION_ID if the broker keeps none."""
        self._epoch = _FIRST_EPOCH if session_id == NO_SESSION_ID else self._epoch % _LAST_EPOCH + 1
        self._id = session_id

    def refused(self) -> None:
        """Report that the broker does not know the session or its epoch. The next request starts another session."""
        self._id, self._epoch = NO_SESSION_ID, _FIRST_EPOCH

    def begin_anew(self) -> None:
        """Make the next request a full one, which starts a new session.

        Needed if a response was lost, or if the broker must treat all partitions as new.
        """
        self._begins_anew = True
