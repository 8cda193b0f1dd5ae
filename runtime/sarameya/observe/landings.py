"""What handlers tell of what they write, through `Session.tell`: the Spark sink does, and others may as well."""

from __future__ import annotations

import attrs

from sarameya.model import TopicPartition
from sarameya.observe.events import Event


@attrs.frozen(slots=True, kw_only=True)
class LandingStarted(Event):
    """A handler begins to write the records from `from_offset` up to `to_offset` where they belong."""

    partition: TopicPartition
    from_offset: int
    to_offset: int


@attrs.frozen(slots=True, kw_only=True)
class Landed(Event):
    """It has: so many rows and bytes, after so many seconds. -1 for what is not known."""

    partition: TopicPartition
    from_offset: int
    to_offset: int
    rows: int = -1
    size_bytes: int = -1
    seconds: float


@attrs.frozen(slots=True, kw_only=True)
class LandingFailed(Event):
    """A try to write them has failed, and another one follows, or the claim fails with the `cause`."""

    partition: TopicPartition
    from_offset: int
    to_offset: int
    cause: str


@attrs.frozen(slots=True, kw_only=True)
class DeadLettered(Event):
    """Records that cannot be written where they belong were set aside in `place`."""

    partition: TopicPartition
    count: int
    place: str


@attrs.frozen(slots=True, kw_only=True)
class TableGrown(Event):
    """The table at `table` has grown so long that it slows starts and landings: `what` names it, and what to run."""

    table: str
    what: str
