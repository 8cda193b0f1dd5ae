"""Lost answers of the table's commits and reads and of Kafka's commits, and stores that refuse requests for a while.

The sink finds out the outcome, retries the same link, and remains a member. Parquet, in virtual time.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api
from tests.conformance.groups import FaultyTable, landing_group

pytestmark = [
    pytest.mark.usefixtures("unsynced"),
    pytest.mark.landing(what="no response", table="Parquet", store="local disk", spark="none"),
]


@pytest.mark.parametrize(("lost", "unreadable"), [*product((0, 1, 2), (0, 1, 3))][1:])
async def test_lost_answer_of_the_table_is_settled_by_reading_it(
    tmp_path: Path, autojump_clock: MockClock, lost: int, unreadable: int
) -> None:
    async with landing_group(tmp_path, partitions=2) as group:
        table = FaultyTable(group.parquet)
        member = await group.join(table=table)
        table.lost_answers, table.failing_reads = lost, unreadable
        group.produce(35)
        await group.until_landed()
        group.prove()
        assert len({link.attempt for link in table.attempts}) == len(table.attempts)
        assert sorted({(link.key, link.number) for link in table.attempts}) == sorted(
            (key, number) for key in group.keys for number in range(1, 5)
        )
        assert len(table.attempts) == 8, "no landed link is retried"
        assert (member.error, member.ended.is_set()) == (None, False)


async def test_store_refusing_for_minutes_keeps_the_membership(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The store returns 503 for ten minutes. The sink retries the same link, without a rebalance."""
    async with landing_group(tmp_path) as group:
        table = FaultyTable(group.parquet)
        member = await group.join(table=table)
        began = trio.current_time()
        table.land_error = lambda: OSError("503 Slow Down") if trio.current_time() < began + 600 else None
        group.produce(35)
        await group.until_landed()
        group.prove()
        assert 600 <= trio.current_time() - began <= 650
        assert 20 <= len(table.attempts) <= 40
        assert {link.number for link in table.attempts[:-3]} == {1}
        assert group.cluster.describe_group("landing").generation == 1
        assert member.error is None


@pytest.mark.parametrize("how", ["dropped", "refused", "hangs"])
async def test_lost_kafka_commits_are_replaced_by_the_table(
    tmp_path: Path, autojump_clock: MockClock, how: str
) -> None:
    """All later commits of a member are lost until it dies. Its successor starts at the offset that the table has."""
    async with landing_group(tmp_path, partitions=2) as group:
        member = await group.join()
        group.produce(5)
        await group.until_landed()
        commits = group.cluster
        if how == "dropped":
            commits.drop_next(Api.OFFSET_COMMIT, None, half="request")
        elif how == "refused":
            commits.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_NOT_AVAILABLE, None)
        else:
            commits.drop_next(Api.OFFSET_COMMIT, None, half="request", hang_up=False)
        group.produce(30)
        while {key: head.to_offset for key, head in group.heads.items()} != group.ends:
            await trio.sleep(0.1)
        assert {commit.offset for commit in group.committed.values()} == {5}
        member.scope.cancel()
        await member.ended.wait()
        group.cluster.clear_faults()

        group.produce(5)
        await group.join()
        await group.until_landed()
        group.prove()


async def test_lost_response_of_a_commit_duplicates_nothing(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with landing_group(tmp_path, partitions=2) as group:
        member = await group.join()
        for _ in range(4):
            group.cluster.drop_next(Api.OFFSET_COMMIT)
            group.produce(15)
            await group.until_landed()
        group.prove()
        assert member.error is None
