"""The least cost of an assignment, by a slow algorithm that is independent of our assignors: minimum-cost flow."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from sarameya.model import Assignment, TopicPartition
from sarameya.protocol.assignors import Subscription, TopicLayout
from tests.protocol.assignors.kit import counts, mismatches, moved, owners

_MANY = 1_000
"""A number above the number of partitions in any test."""


class Cost(NamedTuple):
    """The cost of an assignment, the most important part first."""

    imbalance: int
    """The sum of the squares of the members' counts."""
    mismatches: int
    moves: int


def cost(
    before: Mapping[str, Assignment],
    result: Mapping[str, Assignment],
    members: Mapping[str, Subscription],
    topics: Mapping[str, TopicLayout],
) -> Cost:
    return Cost(
        sum(count * count for count in counts(result)),
        mismatches(result, members, topics),
        len(moved(before, result)),
    )


def least_cost(
    before: Mapping[str, Assignment], members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]
) -> Cost:
    """Return the least cost of an assignment of all partitions of the subscribed topics."""
    previous = owners(before)
    flow = _Flow()
    for topic, layout in topics.items():
        subscribers = [member for member, subscription in members.items() if topic in subscription.topics]
        for number in range(layout.partitions if subscribers else 0):
            partition = TopicPartition(topic, number)
            flow.edge("source", partition, 0)
            for member in subscribers:
                rack, racks = members[member].rack_id, layout.racks.get(number)
                mismatch = bool(rack and racks and rack not in racks)
                flow.edge(partition, member, mismatch * _MANY + (previous.get(partition, member) != member))
    for member in members:
        for count in range(_MANY if not topics else sum(layout.partitions for layout in topics.values())):
            flow.edge(member, "sink", (2 * count + 1) * _MANY * _MANY)
    total = flow.cheapest()
    return Cost(total // _MANY**2, total // _MANY % _MANY, total % _MANY)


class _Flow:
    """A network with edges of capacity one."""

    def __init__(self) -> None:
        self._edges: dict[object, list[list[object]]] = {"source": [], "sink": []}

    def edge(self, start: object, end: object, price: int) -> None:
        there: list[object] = [end, price, True]
        back: list[object] = [start, -price, False, there]
        there.append(back)
        self._edges.setdefault(start, []).append(there)
        self._edges.setdefault(end, []).append(back)

    def cheapest(self) -> int:
        """Return the price of the cheapest maximum flow."""
        total = 0
        while (found := self._cheapest_path()) is not None:
            price, path = found
            total += price
            for edge in path:
                edge[2], edge[3][2] = False, True  # type: ignore[index]
        return total

    def _cheapest_path(self) -> tuple[int, list[list[object]]] | None:
        prices: dict[object, int] = {"source": 0}
        taken: dict[object, tuple[object, list[object]]] = {}
        waiting = deque(prices)
        while waiting:
            at = waiting.popleft()
            for edge in self._edges[at]:
                end, price, free = edge[:3]
                if free and prices[at] + price < prices.get(end, prices[at] + price + 1):  # type: ignore[operator]
                    prices[end] = prices[at] + price  # type: ignore[operator]
                    taken[end] = (at, edge)
                    waiting.append(end)
        if "sink" not in prices:
            return None
        path, at = [], "sink"
        while at != "source":
            at, edge = taken[at]
            path.append(edge)
        return prices["sink"], path
