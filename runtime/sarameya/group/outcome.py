"""What a session is given to work with, and what it leaves behind. Data only."""

from __future__ import annotations

import math

import attrs

from sarameya.config import Config
from sarameya.group.member import NewAssignment
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff


@attrs.frozen(slots=True)
class Runtime:
    """What every session of a group works with."""

    group: str
    config: Config
    pool: BrokerPool
    metadata: MetadataRefresher
    observer: Observer
    backoff: Backoff


@attrs.define(slots=True)
class Outcome:
    """How a session ended. `deadline` is by when its member must have moved on."""

    reason: str = ""
    deadline: float = math.inf
    failures: list[Exception] = attrs.field(factory=list)
    lost: bool = False
    closing: bool = False
    rebalanced: bool = False
    """Ended by the group, in order, and by nothing else."""
    fatal: Exception | None = None
    next: NewAssignment | None = None
    """An assignment that came while the session ended: the next one begins with it."""
