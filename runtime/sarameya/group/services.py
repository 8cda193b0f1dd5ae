"""Services of a group for its handler, for the length of `consume()`: a producer, topics, the time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import attrs

from sarameya.observe import Observer
from sarameya.producer.record import ProducerRecord
from sarameya.protocol.subscription import Wanted


class RecordSender(Protocol):
    """Sends records: a `Producer`."""

    async def send_many(self, records: Iterable[ProducerRecord]) -> object:
        """Send records. Return once all are acknowledged."""


class Topics(Protocol):
    """Creates topics, or checks that they exist."""

    async def __call__(self, wanted: Mapping[str, str | None], *, create: bool) -> None:
        """Return once all topics exist.

        Args:
            wanted: Names of the topics. A topic that is created gets as many partitions as the topic in its value; the
                brokers' default if that is None.
            create: Create topics that do not exist.

        Raises:
            UnknownTopicError: A topic does not exist, and `create` is False.
            SarameyaError: The cluster was not reached, or refused a request.
        """


@attrs.frozen(slots=True)
class HandlerServices:
    """Services that a handler may use besides its session.

    Attributes:
        group: Id of the group.
        wanted: Topics, or the pattern, that `consume()` was called with.
        open_sender: Opens a producer to the group's cluster.
        ensure_topics: Creates topics, or checks that they exist.
        wall_clock: Returns the seconds since 1970.
        observer: Receives events.
        rng: Jitters delays.
    """

    group: str
    wanted: Wanted
    open_sender: Callable[[], AbstractAsyncContextManager[RecordSender]]
    ensure_topics: Topics
    wall_clock: Callable[[], float]
    observer: Observer
    rng: random.Random

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that `consume()` was called with; empty for a pattern."""
        return self.wanted if isinstance(self.wanted, tuple) else ()
