"""The parts of a transcript: steps, and the placeholders in their fields. Data only; `player` plays it.

A transcript's connections have names ("a", "b"), which are their client ids too. A step asks something by one of them,
or changes the cluster; fields may hold placeholders for what only the play knows: member ids, generations, ids of
producers and fetch sessions, the play's own group and topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from sarameya.protocol.versions import Api
from tests.transcripts.versions import TYPICAL

SIZES = (1, 3)
"""The clusters that transcripts are played on, by the number of their brokers: on each of these, and on no other."""


@attrs.frozen
class Id:
    """The latest member id the connection was given (`nth` counts from 0), "" before the first."""

    by: str
    nth: int = -1


@attrs.frozen
class Generation:
    """The generation the connection last joined, -1 before, plus `plus`."""

    by: str
    plus: int = 0


@attrs.frozen
class Protocol:
    """The protocol name ("type": the protocol type) the connection was told when it last joined."""

    by: str
    field: str = "name"


@attrs.frozen
class Instance:
    """The instance id the connection last joined with; None if without."""

    by: str


@attrs.frozen
class Group:
    """A group of this play alone; `name` tells several apart."""

    name: str = ""


@attrs.frozen
class Topic:
    """A topic of this play alone. One that the transcript does not list in its `topics` does not exist."""

    name: str


@attrs.frozen
class TopicId:
    """The id of a `Topic` (KIP-516), as it was when the play began; of one that does not exist, an id that nobody has.

    `later`: that of the topic that has been made in its place since.
    """

    name: str
    later: bool = False


@attrs.frozen
class Producer:
    """The producer id the connection was given last (-1 before), or with it (`field` "epoch") the epoch."""

    by: str
    field: str = "id"


@attrs.frozen
class FetchSession:
    """The id of the fetch session that the connection was given last, 0 before."""

    by: str


@attrs.frozen
class Ask:
    """Send a request and record its answer, or that it is held for now."""

    by: str
    api: Api
    fields: Mapping[str, Any]
    may_be_held: bool = False
    """Look for the answer for a moment only. Otherwise it has to come."""
    comes_back: bool = False
    """A join that is answered MEMBER_ID_REQUIRED is asked again with the id, as a client does (KIP-394)."""
    at_coordinator: bool = True
    """False: at a broker that does not coordinate the play's group."""
    broker: int | None = None
    """At which broker instead, by its place among the cluster's."""
    version: int | None = None
    """In place of the profile's."""
    recorded: bool = True
    """False: what is answered is another transcript's matter."""


@attrs.frozen
class Await:
    """Record the answer to what was held; it has to come. Nothing to do where it was not held."""

    by: str


@attrs.frozen
class Look:
    """Record, of all connections that wait for an answer, whether it has come."""


@attrs.frozen
class Sleep:
    """Let time pass."""

    seconds: float


@attrs.frozen
class MoveLeader:
    """Let the broker at a place lead a partition, and wait until all brokers know."""

    topic: str
    partition: int
    broker: int


@attrs.frozen
class DeleteRecords:
    """Let a partition begin at an offset."""

    topic: str
    partition: int
    before: int


@attrs.frozen
class DeleteTopic:
    """Take a topic away, and make one of the same name in its place if it is `made_anew`."""

    topic: str
    made_anew: bool = False


@attrs.frozen
class InTransaction:
    """Let a producer append a batch of values to a partition, in its transaction: the one it is in, or the next."""

    by: str
    topic: str
    partition: int
    values: tuple[str, ...]


@attrs.frozen
class EndTransaction:
    """Let a producer commit or abort, and wait until the logs say so."""

    by: str
    commits: bool


Change = MoveLeader | DeleteRecords | DeleteTopic | InTransaction | EndTransaction
"""What happens to the cluster; nothing is recorded."""
Step = Ask | Await | Look | Sleep | Change


@attrs.frozen
class Transcript:
    """A conversation with a cluster, about a group, or some groups, or topics that nobody else uses."""

    name: str
    steps: tuple[Step, ...]
    way: tuple[Step, ...] = ()
    """What leads there; another transcript records its answers."""
    profiles: tuple[str, ...] = TYPICAL
    brokers: int = attrs.field(default=1, validator=attrs.validators.in_(SIZES))
    """3: needs brokers that do not coordinate the group or lead the partition, or a limit of three members a group."""
    topics: Mapping[str, int] = attrs.field(factory=dict)
    """What is there of its own: name -> number of partitions. Partition n is led by the broker at place n, round and
    round, and all brokers have it."""

    @property
    def sleeps(self) -> bool:
        """True if the transcript depends on time."""
        return any(isinstance(step, Sleep) for step in self.steps)
