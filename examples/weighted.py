"""An assignor of one's own: members on larger machines get more partitions. A small and a large one share eight.

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
    """Deals each partition to the member that has the least for its weight, which members send along as user data."""

    name = "weighted"

    def __init__(self, weight: int) -> None:
        self.weight = weight

    def subscription_user_data(self) -> bytes:
        return b"%d" % self.weight

    def assign(self, members: Mapping[str, Subscription], topics: Mapping[str, TopicLayout]) -> dict[str, Assignment]:
        weights = {member: int(said.user_data or b"1") for member, said in members.items()}
        dealt: dict[str, dict[str, tuple[int, ...]]] = {member: {} for member in members}
        counts = dict.fromkeys(members, 0)
        for topic, layout in sorted(topics.items()):
            takers = sorted(member for member, said in members.items() if topic in said.topics)
            for number in range(layout.partitions if takers else 0):
                member = min(takers, key=lambda taker: ((counts[taker] + 1) / weights[taker], taker))
                dealt[member][topic] = (*dealt[member].get(topic, ()), number)
                counts[member] += 1
        return dict(dealt)


class Shares(ConsumerGroupHandler):
    """Notes how many partitions each member has, and ends the program when all have their share."""

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
