"""The order in which brokers are asked what any broker can answer. Pure: the time is an argument.

Each kind of request goes round the brokers, so that none is asked always: a broker that is cut off from the controller
goes on answering, with what is out of date. A broker that has failed, or did not answer soon, comes behind the others
for a while. `tests/net/test_broker_rotation.py` holds both rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sarameya.protocol.metadata import Broker

BEHIND = 60.0
"""Seconds for which a broker that has failed comes behind the others."""

SOON = 1.0
"""Seconds to wait for one broker, at most, before the next one is asked as well."""


class BrokerRotation:
    """The turns of a cluster's brokers, by address."""

    def __init__(self) -> None:
        self._turns: Counter[str] = Counter()
        self._behind: dict[str, float] = {}

    def failed(self, address: str, now: float) -> None:
        """Put a broker behind the others, since it has failed or does not answer."""
        self._behind[address] = now + BEHIND

    def order(self, brokers: Sequence[Broker], now: float) -> list[Broker]:
        """Return the brokers as they would be asked now; no turn is used up."""
        return self._order(brokers, 0, now)

    def next_order(self, kind: str, brokers: Sequence[Broker], now: float) -> list[Broker]:
        """Return the brokers in the order in which to ask them for the next request of this kind."""
        self._turns[kind] += 1
        return self._order(brokers, self._turns[kind] - 1, now)

    def _order(self, brokers: Sequence[Broker], turn: int, now: float) -> list[Broker]:
        self._behind = {address: until for address, until in self._behind.items() if until > now}
        ready = [broker for broker in brokers if broker.address not in self._behind]
        if ready:
            turn %= len(ready)
        # Of those that have failed, the one that did so longest ago is the likeliest to be back.
        behind = [broker for broker in brokers if broker.address in self._behind]
        behind.sort(key=lambda broker: self._behind[broker.address])
        return [*ready[turn:], *ready[:turn], *behind]


def seconds_each(brokers: int, seconds: float) -> float:
    """Return how long to wait for one broker before the next is asked, so that all are asked within `seconds`."""
    return min(SOON, seconds / (brokers + 1))
