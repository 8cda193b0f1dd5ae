"""What one partition's data may cost the others: answers too large, and what a handler keeps."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from sarameya import BatchTooLargeError, Claim, ConsumerGroupHandler, Session
from sarameya.embedded import EmbeddedCluster
from tests.group.kit import Recorder, claim_failure, deadline, eventually, fill, orders, start_member


async def test_batch_larger_than_any_answer_may_be_fails_its_claim_alone_with_its_coordinates(
    autojump_clock: MockClock,
) -> None:
    class ReadsAll(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            try:
                await super().consume_claim(session, claim)
            except BatchTooLargeError as error:
                self.error = error
                await others_read.wait()
                raise

    others_read = trio.Event()
    async with orders(3) as cluster, deadline() as nursery:
        fill(cluster, 5, 1)
        cluster.produce("orders", 1, b"x" * 500_000)
        handler = ReadsAll()
        member = await start_member(
            nursery,
            cluster,
            handler,
            max_response_bytes=100_000,
            fetch_max_bytes=50_000,
            fetch_max_partition_bytes=20_000,
        )
        for partition in (0, 2):
            for _ in range(10):
                cluster.produce("orders", partition, b"y" * 10_000)
        await handler.received(25)
        await eventually(lambda: hasattr(handler, "error"))
        fill(cluster, 5, 0)
        fill(cluster, 5, 2)
        await handler.received(35)
        others_read.set()
        await member.ended.wait()
        error = claim_failure(member)
        assert isinstance(error, BatchTooLargeError)
        assert (error.topic, error.partition, error.offset) == ("orders", 1, 5)
        assert handler.offsets("orders", 1) == list(range(5))


async def test_what_a_handler_keeps_holds_back_its_partition_and_no_other(autojump_clock: MockClock) -> None:
    class Keeps(ConsumerGroupHandler):
        """Collects partition 0, and lets go of it after a minute."""

        def __init__(self) -> None:
            self.taken = [0, 0]

        async def consume_claim(self, session: Session, claim: Claim) -> None:
            async for message in claim:
                self.taken[claim.partition] += 1
                if claim.partition == 0 and not released.is_set():
                    claim.hold(len(message.value or b""))
                    kept.append(len(message.value or b""))

    kept: list[int] = []
    released = trio.Event()
    cluster = EmbeddedCluster(topics={"orders": 2}, in_memory=True, seed=1)
    async with cluster, deadline() as nursery:
        for partition in range(2):
            for _ in range(200):
                cluster.produce("orders", partition, b"x" * 1000)
        handler = Keeps()
        member = await start_member(
            nursery, cluster, handler, fetch_buffer_bytes=100_000, fetch_max_partition_bytes=10_000
        )
        await trio.sleep(60)
        assert handler.taken[1] == 200
        assert 25 <= handler.taken[0] <= 110
        assert member.group.buffered_bytes <= 110_000
        await member.close()
        assert member.group.buffered_bytes == 0
