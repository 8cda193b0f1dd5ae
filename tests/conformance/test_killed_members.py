"""Members are killed exactly at each phase of a landing, one after the other; the next owner completes the landing."""

from __future__ import annotations

import pytest
import trio

from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.brokers import TOPIC, broker
from tests.conformance.contenders import CONTENDERS, Contender, Place, Runs, each
from tests.conformance.members import members
from tests.conformance.table_checks import judged

pytestmark = pytest.mark.landing(what="killed")


@each(*CONTENDERS, exhaustive=["ledger", "delta-adopted-s3"])
@pytest.mark.integration
async def test_members_killed_at_each_phase_lose_nothing(contender: Contender, place: Place) -> None:
    """Each member takes over from the killed one, lands its records, and is killed during its own next landing."""
    began = trio.current_time()
    # Without Spark landings are cheap: members are killed at their second one, with more partitions.
    partitions, records, nth = (3, 120, 2) if contender.runs is Runs.THREADS else (2, 50, 1)
    async with (
        broker(partitions) as log,
        judged(contender, place, log.bootstrap_servers) as judge,
        members(contender, place, log.bootstrap_servers, [TOPIC]) as group,
    ):
        owner = await group.start()
        await owner.join()
        log.produce(records)
        await log.until_landed()
        for phase in contender.phases:
            successor = await group.start()
            await owner.arm("kill", phase, nth)
            log.produce(records)
            hit = await owner.until_killed()
            assert hit["phase"] == phase
            log.expire(owner.member_id)
            await successor.join()
            await log.until_landed()
            await judge.prove(log.ends)
            owner = successor
        await group.close()
        assert await judge.sweep() >= 1, "a member killed before the link left files behind"
        await judge.prove(log.ends)
    print(f"{contender.name}: {len(contender.phases)} kills in {trio.current_time() - began:.0f} s")


@each("delta", "iceberg")
async def test_member_killed_while_creating_the_table_loses_nothing(contender: Contender, place: Place) -> None:
    """The member dies before its first link exists, or right after it.

    The next owner finds a table that another process has created, without a link, or with one that was never marked.
    """
    phase = next(phase for phase in (Phase.WRITTEN, Phase.LINKED) if phase in contender.phases)
    async with (
        broker() as log,
        judged(contender, place, log.bootstrap_servers) as judge,
        members(contender, place, log.bootstrap_servers, [TOPIC], sink={"max_age": 600.0}) as group,
    ):
        owner, successor = await group.start(), await group.start()
        # Both members start when no table exists.
        await successor.until(lambda: any("ready" in report for report in successor.reports), "being ready")
        await owner.arm("kill", phase)
        await owner.join()
        log.produce(50)
        hit = await owner.until_killed()
        (key,) = log.ends
        assert hit["links"] == [[str(key), 1, 0, 50]], "the first landing of the table"
        links = await judge.links(key)
        assert [link.attempt for link in links] == (hit["attempts"] if phase is Phase.LINKED else [])

        log.expire(owner.member_id)
        await successor.join()
        await log.until_landed()
        log.produce(50)
        await log.until_landed()
        await group.close()
        chains = await judge.prove(log.ends)
        assert (chains[key][0].attempt in hit["attempts"]) == (phase is Phase.LINKED), "a link that exists is adopted"
