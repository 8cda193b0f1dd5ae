"""Your own assignor: members on larger machines get more partitions. A small and a large member share eight of them.

python examples/weighted.py
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from sarameya import (
    Assignment,
    Assignor,
    Claim,
    ConsumerGroup,
    ConsumerGroupHandler,
    Session,
    Subscription,
    TopicLayout,
)
from sarameya.embedded import EmbeddedCluster


class Weighted(Assignor):
    """Assigns each partition to the member with the fewest partitions for its weight. Members send it as user data."""

    name = "weighted"

    def __init__(self, weight: int) -> None:
        self.weight = weight

    def subscription_user_data(self) -> bytes:
        return b"%d" % self.weight

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        weights = {member: int(subscription.user_data or b"1") for member, subscription in members.items()}
        assigned: dict[str, dict[str, tuple[int, ...]]] = {member: {} for member in members}
        counts = dict.fromkeys(members, 0)
        for topic, layout in sorted(topics.items()):
            subscribers = sorted(member for member, subscription in members.items() if topic in subscription.topics)
            for partition in range(layout.partitions if subscribers else 0):
                member = min(subscribers, key=lambda each: ((counts[each] + 1) / weights[each], each))
                assigned[member][topic] = (*assigned[member].get(topic, ()), partition)
                counts[member] += 1
        return dict(assigned)


class Shares(ConsumerGroupHandler):
    """Counts the partitions of each member, and sets `done` when two members own all eight."""

    def __init__(self, done: trio.Event) -> None:
        self.done = done
        self.counts: dict[str, int] = {}

    async def setup(self, session: Session) -> None:
        self.counts[session.member_id] = sum(map(len, session.claims.values()))
        if len(self.counts) == 2 and sum(self.counts.values()) == 8:
            self.done.set()

    async def cleanup(self, session: Session) -> None:
        self.counts.pop(session.member_id)

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            session.mark_message(message)


async def main() -> None:
    async with EmbeddedCluster(topics={"orders": 8}) as cluster, trio.open_nursery() as nursery:
        shares = Shares(trio.Event())
        for weight in (1, 3):
            group = ConsumerGroup(cluster.bootstrap_servers, "orders", assignors=[Weighted(weight)])
            nursery.start_soon(consume, group, shares)
        await shares.done.wait()
        small, large = sorted(shares.counts.values())
        print(f"of eight partitions the small one has {small}, the large one {large}")
        nursery.cancel_scope.cancel()


async def consume(group: ConsumerGroup, shares: Shares) -> None:
    async with group:
        await group.consume(["orders"], shares)


if __name__ == "__main__":
    trio.run(main)
