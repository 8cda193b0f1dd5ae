"""A fetch session with one broker (KIP-227), the client's half. Pure.

The broker remembers what it has been told of each partition, so a request names only what has changed: a thousand
quiet partitions do not travel. Silence means "as before", on both sides; what is no longer wanted is named as
forgotten. A session is whatever the last answer said it is: where the broker keeps none (too many, or too old a
broker) each request names everything; where one is lost, the next request names everything and begins another.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import attrs

from sarameya.model import NO_LEADER_EPOCH, TopicPartition

NO_SESSION_ID = 0
_FIRST_EPOCH = 0
NO_SESSION_EPOCH = -1
"""Of a fetch outside of any session, which leaves one that there may be as it is."""
_LAST_EPOCH = 2**31 - 1


@attrs.frozen(slots=True)
class Ask:
    """What a fetch says of one partition."""

    position: int
    max_bytes: int
    leader_epoch: int = NO_LEADER_EPOCH
    topic_id: uuid.UUID | None = None


@attrs.frozen(slots=True)
class FetchPlan:
    """What the next request says of sessions and partitions."""

    session_id: int
    session_epoch: int
    asks: Mapping[TopicPartition, Ask]
    forgotten: Sequence[tuple[TopicPartition, uuid.UUID | None]] = ()

    @property
    def is_full(self) -> bool:
        """It names everything that is wanted, so an answer to it says something of each."""
        return self.session_epoch in (_FIRST_EPOCH, NO_SESSION_EPOCH)


class FetchSession:
    """What is wanted of one broker, and what it has been told. One request at a time."""

    def __init__(self) -> None:
        self._id = NO_SESSION_ID
        self._epoch = _FIRST_EPOCH
        # In the order in which a full request names them: what has been served last stands last.
        self._wanted: dict[TopicPartition, Ask] = {}
        # What the broker knows, or will once the request on its way has reached it.
        self._told: dict[TopicPartition, Ask] = {}
        self._changed: dict[TopicPartition, Ask] = {}
        self._forgotten: dict[tuple[TopicPartition, uuid.UUID | None], None] = {}
        self._begins_anew = False

    @property
    def wanted(self) -> Mapping[TopicPartition, Ask]:
        """What the next request asks for, told before or not."""
        return self._wanted

    def told(self, partition: TopicPartition) -> Ask | None:
        """What the broker goes by, and what its next answer is about."""
        return self._told.get(partition)

    def put(self, partition: TopicPartition, ask: Ask) -> None:
        """Ask for this partition from now on, so."""
        if self._wanted.get(partition) == ask:
            return
        self._wanted.pop(partition, None)
        self._wanted[partition] = ask
        told = self._told.get(partition)
        if told is not None and told.topic_id != ask.topic_id:
            # Another topic's, and brokers that go by names cannot forget the one and be told of the other at once.
            self.begin_anew()
        self._forgotten.pop((partition, ask.topic_id), None)
        if told == ask:
            self._changed.pop(partition, None)
        else:
            self._changed[partition] = ask

    def drop(self, partition: TopicPartition) -> None:
        """Ask for it no longer."""
        if self._wanted.pop(partition, None) is None:
            return
        self._changed.pop(partition, None)
        told = self._told.get(partition)
        if told is not None:
            self._forgotten[partition, told.topic_id] = None

    def plan(self) -> FetchPlan:
        """The next request. Say then what has become of it: `answered`, `refused` or, by `begin_anew`, lost."""
        if self._begins_anew or self._epoch == _FIRST_EPOCH:
            self._begins_anew, self._epoch = False, _FIRST_EPOCH
            plan = FetchPlan(self._id, _FIRST_EPOCH, dict(self._wanted))
            self._told = dict(self._wanted)
        else:
            plan = FetchPlan(self._id, self._epoch, self._changed, tuple(self._forgotten))
            for partition, _ in self._forgotten:
                del self._told[partition]
            self._told |= self._changed
        self._changed, self._forgotten = {}, {}
        return plan

    def answered(self, session_id: int) -> None:
        """The broker has answered, and keeps this session."""
        self._epoch = _FIRST_EPOCH if session_id == NO_SESSION_ID else self._epoch % _LAST_EPOCH + 1
        self._id = session_id

    def refused(self) -> None:
        """The broker knows no such session, or not at this point: begin another."""
        self._id, self._epoch = NO_SESSION_ID, _FIRST_EPOCH

    def begin_anew(self) -> None:
        """The next request names everything, and begins another session in place of the one that there may be: where an
        answer was lost, or what the broker knows is to be known to it as new."""
        self._begins_anew = True
