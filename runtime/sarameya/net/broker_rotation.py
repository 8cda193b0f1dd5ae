"""Order of the brokers for requests that any broker can answer. Pure: the time is an argument.

Successive requests of one kind start with different brokers. If they all went to one broker, and it were cut off from
the controller, they would all get stale metadata. A broker that has failed, or did not answer soon, is tried last for a
while. `tests/net/test_broker_rotation.py` checks both rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sarameya.protocol.cluster.metadata import Broker

DEMOTED_FOR = 60.0
"""Seconds for which a broker that has failed is tried last."""

MAX_WAIT_EACH = 1.0
"""Maximal seconds to wait for one broker before the next gets the request as well."""


class BrokerRotation:
    """Rotation through a cluster's brokers, by address."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        """Number of requests of each kind so far."""
        self._demoted: dict[str, float] = {}
        """Address of each broker that is tried last -> the time at which that ends."""

    def failed(self, address: str, now: float) -> None:
        """Try this broker last for a while: it has failed, or does not answer."""
        self._demoted[address] = now + DEMOTED_FOR

    def order(self, brokers: Sequence[Broker], now: float) -> list[Broker]:
        """Return the current order of the brokers, without a rotation."""
        return self._order(brokers, 0, now)

    def next_order(self, kind: str, brokers: Sequence[Broker], now: float) -> list[Broker]:
        """Return the order of the brokers for a request of this kind, and rotate it for the next request."""
        self._requests[kind] += 1
        return self._order(brokers, self._requests[kind] - 1, now)

    def _order(self, brokers: Sequence[Broker], first: int, now: float) -> list[Broker]:
        self._demoted = {address: until for address, until in self._demoted.items() if until > now}
        ready = [broker for broker in brokers if broker.address not in self._demoted]
        if ready:
            first %= len(ready)
        # The broker that failed first is the most likely to have recovered.
        demoted = [broker for broker in brokers if broker.address in self._demoted]
        demoted.sort(key=lambda broker: self._demoted[broker.address])
        return [*ready[first:], *ready[:first], *demoted]


def seconds_each(brokers: int, seconds: float) -> float:
    """Return the wait for one broker before the next gets the request. All brokers get it within `seconds`."""
    return min(MAX_WAIT_EACH, seconds / (brokers + 1))
