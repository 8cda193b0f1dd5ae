"""What a transcript is made of: steps, and the placeholders in their fields. Data only; `player` plays it.

A transcript's connections have names ("a", "b"), which are their client ids too. A step asks something by one of them;
fields may hold placeholders for what only the play knows: member ids, generations, the play's own group.
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


Step = Ask | Await | Look | Sleep


@attrs.frozen
class Transcript:
    """A conversation with a cluster: one group's, or some groups' that nobody else uses."""

    name: str
    steps: tuple[Step, ...]
    way: tuple[Step, ...] = ()
    """What leads there; another transcript records its answers."""
    profiles: tuple[str, ...] = TYPICAL
    brokers: int = attrs.field(default=1, validator=attrs.validators.in_(SIZES))
    """3: needs brokers that do not coordinate the group, and a limit of three members a group."""

    @property
    def sleeps(self) -> bool:
        """Whether it depends on time."""
        return any(isinstance(step, Sleep) for step in self.steps)
