"""Memberships that end during another operation: no join and no commit happens before the session has ended."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from sarameya import (
    Claim,
    CommitError,
    ErrorCode,
    FencedInstanceError,
    GroupAuthorizationError,
    Session,
    TopicPartition,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import Committed, MembershipChanged, SessionEnded, SessionEnding
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, committed, deadline, eventually, fill, orders, start_member
from tests.group.test_cooperative import Partitions, start


class LostWhileRevoking(Partitions):
    """A handler whose member is removed from the group during a revocation. Its kept claims are slow."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        super().__init__()
        self.cluster = cluster

    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for message in claim:
            self.messages.append(message)
            await trio.sleep(5)
            session.mark_message(message)
            await trio.sleep(8)

    async def partitions_revoked(self, session: Session, partitions: Sequence[TopicPartition]) -> None:
        if not self.messages:
            for partition in set(range(4)) - {tp.partition for tp in partitions}:
                fill(self.cluster, 5, partition)
            await trio.sleep(1)
            self.cluster.expire_member("g", session.member_id)
            session.mark_offset("orders", partitions[0].partition, 1)


async def test_member_lost_in_a_revocation_rejoins_after_its_session(
    autojump_clock: MockClock,
) -> None:
    async with orders(4) as cluster, deadline() as nursery:
        one, two = LostWhileRevoking(cluster), Partitions()
        first = await start(nursery, cluster, one, autocommit_interval=1.0)
        await one.until(lambda: len(one.claims) == 4)
        await start(nursery, cluster, two, autocommit_interval=1.0)
        await eventually(lambda: len(first.seen(SessionEnded)) == 1)
        lost = next(i for i, e in enumerate(first.events) if isinstance(e, MembershipChanged) and e.after == "LOST")
        ended = first.events.index(first.seen(SessionEnded)[0])
        assert ended > lost
        meanwhile = first.events[lost + 1 : ended]
        assert not [e for e in meanwhile if isinstance(e, MembershipChanged)], "the join waits for the session's end"
        assert not [e for e in meanwhile if isinstance(e, Committed)], "other members commit lost partitions"
        assert first.seen(SessionEnding)[0].lost


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError),
    ],
)
async def test_refused_commit_is_raised_to_handler_and_consume(
    autojump_clock: MockClock, code: ErrorCode, error: type[Exception]
) -> None:
    raised: list[CommitError] = []

    class Commits(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            async for message in claim:
                session.mark_message(message)
                try:
                    await session.commit()
                except CommitError as refusal:
                    raised.append(refusal)
                    raise

    async with orders() as cluster, deadline() as nursery:
        one = Commits()
        member = await start_member(nursery, cluster, one, autocommit=False)
        await one.until(lambda: "claim" in one.calls)
        cluster.fail_next(Api.OFFSET_COMMIT, code)
        fill(cluster, 1)
        await member.ended.wait()
        assert isinstance(member.error, error)
        assert raised[0].code == code


async def test_commit_waiting_for_a_coordinator_ends_with_membership(autojump_clock: MockClock) -> None:
    waited: list[float] = []

    class Commits(Recorder):
        async def consume_claim(self, session: Session, claim: Claim) -> None:
            self._note("claim")
            async for message in claim:
                session.mark_message(message)
                began = trio.current_time()
                try:
                    await session.commit()
                finally:
                    waited.append(trio.current_time() - began)

    async with orders(brokers=2) as cluster, deadline() as nursery:
        one = Commits()
        member = await start_member(nursery, cluster, one)
        await one.until(lambda: "claim" in one.calls)
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR)
        cluster.fail_next(Api.FIND_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, 3)
        cluster.fail_next(Api.FIND_COORDINATOR, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        fill(cluster, 1)
        await member.ended.wait()
        assert isinstance(member.error, GroupAuthorizationError)
        assert waited[0] < 2
        assert committed(cluster) == {"orders-0": 0}
