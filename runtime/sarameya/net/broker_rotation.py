"""Order of the brokers for requests that any broker can answer. Pure: the time is an argument.

Each kind of request goes round the brokers, so that none always gets it: a broker that is cut off from the controller
still answers, with stale metadata. A broker that has failed, or did not answer soon, comes after the others for a
while. `tests/net/test_broker_rotation.py` checks both rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sarameya.protocol.cluster.metadata import Broker

BEHIND = 60.0
"""Seconds for which a broker that has failed comes after the others."""

SOON = 1.0
"""Seconds to wait for one broker, at most, before the next gets the request as well."""


class BrokerRotation:
    """Turns of a cluster's brokers, by address."""

    def __init__(self) -> None:
        self._turns: Counter[str] = Counter()
        self._behind: dict[str, float] = {}

    def failed(self, address: str, now: float) -> None:
        """Move a broker behind the others, since it has failed or does not answer."""
        self._behind[address] = now + BEHIND

    def order(self, brokers: Sequence[Broker], now: float) -> list[Broker]:
        """Return the present order of the brokers, without a change of turns."""
        return self._order(brokers, 0, now)

    def next_order(self, kind: str, brokers: Sequence[Broker], now: float) -> list[Broker]:
        """Return the order of the brokers for the next request of this kind."""
        self._turns[kind] += 1
        return self._order(brokers, self._turns[kind] - 1, now)

    def _order(self, brokers: Sequence[Broker], turn: int, now: float) -> list[Broker]:
        self._behind = {address: until for address, until in self._behind.items() if until > now}
        ready = [broker for broker in brokers if broker.address not in self._behind]
        if ready:
            turn %= len(ready)
        # Of those that have failed, the first to fail is the most likely to be back.
        behind = [broker for broker in brokers if broker.address in self._behind]
        behind.sort(key=lambda broker: self._behind[broker.address])
        return [*ready[turn:], *ready[:turn], *behind]


def seconds_each(brokers: int, seconds: float) -> float:
    """Return the wait for one broker before the next gets the request, so that all get it within `seconds`."""
    return min(SOON, seconds / (brokers + 1))
