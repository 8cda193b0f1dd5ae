"""Members are killed exactly at each phase of a landing, one after the other; whoever takes over finishes it."""

from __future__ import annotations

import pytest
import trio

from tests.conformance.brokers import TOPIC, broker
from tests.conformance.contenders import CONTENDERS, Contender, Place, Runs, each
from tests.conformance.judges import judged
from tests.conformance.members import members


@each(*CONTENDERS)
@pytest.mark.integration
async def test_members_killed_at_each_phase_lose_nothing_and_repeat_nothing(contender: Contender, place: Place) -> None:
    """A relay: each takes over from the dead, lands what is there, and is killed in the middle of what comes then."""
    began = trio.current_time()
    # Without Spark landings are cheap, and there are several of each.
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
        for phase in contender.told:
            successor = await group.start()
            await owner.is_to("kill", phase, nth)
            log.produce(records)
            hit = await owner.has_died()
            assert hit["phase"] == phase
            log.expire(owner.member_id)
            await successor.join()
            await log.until_landed()
            await judge.proves(log.ends)
            owner = successor
        await group.close()
        assert await judge.sweeps() >= 1, "who was killed before the link has left something behind"
        await judge.proves(log.ends)
    print(f"{contender.name}: {len(contender.told)} kills in {trio.current_time() - began:.0f} s")
