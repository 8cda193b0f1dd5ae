"""The parts of a transcript: steps, and the placeholders in their fields. Data only; `player` plays it.

A transcript's connections have names ("a", "b"), which are their client ids too. A step sends a request on one of them,
or changes the cluster. Fields may have placeholders for values that only the play knows: member ids, generations, ids
of producers and fetch sessions, the play's own group and topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from sarameya.protocol.versions import Api
from tests.transcripts.versions import TYPICAL

SIZES = (1, 3)
"""The numbers of brokers of the clusters on which transcripts are played."""


@attrs.frozen
class Id:
    """The latest member id of the connection, or its `nth` one (from 0); "" before the first."""

    by: str
    nth: int = -1


@attrs.frozen
class Generation:
    """The generation that the connection last joined (-1 before), plus `plus`."""

    by: str
    plus: int = 0


@attrs.frozen
class Protocol:
    """The protocol name (`field` "type": the protocol type) in the connection's last join response."""

    by: str
    field: str = "name"


@attrs.frozen
class Instance:
    """The instance id with which the connection last joined; None without one."""

    by: str


@attrs.frozen
class Group:
    """A group of this play alone; `name` distinguishes several."""

    name: str = ""


@attrs.frozen
class Topic:
    """A topic of this play alone. It exists only if the transcript lists it in its `topics`."""

    name: str


@attrs.frozen
class TopicId:
    """The id of a `Topic` (KIP-516) at the start of the play; an unused id if the topic does not exist.

    `recreated`: the id of the topic that was created in its place during the play.
    """

    name: str
    recreated: bool = False


@attrs.frozen
class Producer:
    """The last producer id of the connection (-1 before), or its producer epoch (`field` "epoch")."""

    by: str
    field: str = "id"


@attrs.frozen
class FetchSession:
    """The id of the connection's last fetch session; 0 before."""

    by: str


@attrs.frozen
class Send:
    """Send a request, and record its response, or that it is held."""

    by: str
    api: Api
    fields: Mapping[str, Any]
    may_be_held: bool = False
    """True: wait only a short time for the response. False: the response has to arrive."""
    retry_with_id: bool = False
    """True: retry a join that fails with MEMBER_ID_REQUIRED with the new id, as a client does (KIP-394)."""
    at_coordinator: bool = True
    """False: send it to a broker that does not coordinate the play's group."""
    broker: int | None = None
    """The index of the broker to send it to, in place of the coordinator."""
    version: int | None = None
    """The version of the API, in place of the profile's."""
    recorded: bool = True
    """False: do not record the response; another transcript does."""


@attrs.frozen
class Await:
    """Record the response to a held request, which has to arrive. Does nothing if no request was held."""

    by: str


@attrs.frozen
class Look:
    """Record, for each connection that waits, whether its response has arrived; and the state of the group."""


@attrs.frozen
class Sleep:
    """Let time pass."""

    seconds: float


@attrs.frozen
class MoveLeader:
    """Let the broker with this index lead a partition, and wait until all brokers know."""

    topic: str
    partition: int
    broker: int


@attrs.frozen
class DeleteRecords:
    """Delete a partition's records before an offset."""

    topic: str
    partition: int
    before: int


@attrs.frozen
class DeleteTopic:
    """Delete a topic, and create one with the same name if `recreate`."""

    topic: str
    recreate: bool = False


@attrs.frozen
class InTransaction:
    """Let a producer append a batch of values to a partition, in its current transaction or a new one."""

    by: str
    topic: str
    partition: int
    values: tuple[str, ...]


@attrs.frozen
class EndTransaction:
    """Let a producer commit or abort, and wait until the logs have the markers."""

    by: str
    commits: bool


Change = MoveLeader | DeleteRecords | DeleteTopic | InTransaction | EndTransaction
"""A change of the cluster; it records nothing."""
Step = Send | Await | Look | Sleep | Change


@attrs.frozen
class Transcript:
    """A conversation with a cluster about groups or topics that no other play uses."""

    name: str
    steps: tuple[Step, ...]
    setup: tuple[Step, ...] = ()
    """Steps before the others, whose responses another transcript records."""
    profiles: tuple[str, ...] = TYPICAL
    brokers: int = attrs.field(default=1, validator=attrs.validators.in_(SIZES))
    """3 if it needs brokers that are neither coordinator nor leader, or a limit of three members for a group."""
    topics: Mapping[str, int] = attrs.field(factory=dict)
    """The partition count of each of its topics. Broker n (modulo their number) leads partition n; all replicate it."""

    @property
    def sleeps(self) -> bool:
        """True if the transcript depends on time."""
        return any(isinstance(step, Sleep) for step in self.steps)
