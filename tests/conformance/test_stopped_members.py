"""Members stop at an exact phase of a landing for longer than their session, and go on when others own the partition.

A zombie loses, or the new owner adopts its link; then the zombie is a member like any other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from sarameya_handlers.landing.links import Kind
from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.brokers import SINK, TOPIC, Broker, ChainKey, broker
from tests.conformance.contenders import Contender, Place, each
from tests.conformance.members import Member, members
from tests.conformance.table_checks import Judge, judged

pytestmark = [pytest.mark.integration, pytest.mark.landing(what="stopped")]

KEY = ChainKey(SINK, TOPIC, 0)
BEFORE_THE_LINK = (Phase.STAGED, Phase.READY, Phase.WRITTEN)


@asynccontextmanager
async def two_members(contender: Contender, place: Place) -> AsyncIterator[tuple[Broker, Judge, Member, Member]]:
    """Run two members that land sixty and thirty records at a time: either may be the zombie with the longer batch."""
    async with (
        broker() as log,
        judged(contender, place, log.bootstrap_servers) as judge,
        members(
            contender,
            place,
            log.bootstrap_servers,
            [TOPIC],
            config={"session_timeout": contender.session_timeout},
        ) as group,
    ):
        one, other = await group.start(max_rows=60), await group.start(max_rows=30)
        await one.join()
        await other.join()
        yield log, judge, one, other
        await group.close()


async def owner_first(log: Broker, one: Member, other: Member) -> tuple[Member, Member]:
    """Return the owner of the partition, and the other member, once the group is stable with both."""
    await log.until_members(2)
    while len(owners := [member for member in (one, other) if member.owns]) != 1:
        await trio.sleep(0.01)
    return (one, other) if owners[0] is one else (other, one)


@each(
    "parquet",
    "ledger",
    "delta-adopted",
    "delta-adopted-s3",
    "delta",
    "iceberg",
    exhaustive=["ledger", "delta-adopted-s3", "iceberg"],
)
async def test_zombie_resumed_after_the_new_owner_landed_loses(contender: Contender, place: Place) -> None:
    began = trio.current_time()
    async with two_members(contender, place) as (log, judge, one, other):
        for phase in contender.phases:
            zombie, _ = await owner_first(log, one, other)
            await zombie.arm("stop", phase)
            log.produce(60)
            hit = await zombie.until_stopped()
            if contender.name != "parquet":  # one contender waits for the real session timeout
                log.expire(zombie.member_id)
            await log.until_expired(zombie.member_id)
            await log.until_landed()
            links = await judge.links(KEY)
            is_there = hit["attempts"][0] in {link.attempt for link in links}
            assert is_there == (phase not in BEFORE_THE_LINK), f"stopped at {phase}"

            zombie.resume()
            await zombie.next_report("losing its partition", lambda report: "lost" in report)
            await log.until_members(2)
            log.produce(10)
            await log.until_landed()
            await judge.prove(log.ends)
    print(f"{contender.name}: {len(contender.phases)} zombies in {trio.current_time() - began:.0f} s")


async def test_zombie_resumed_before_the_new_owner_is_adopted(contender: Contender, place: Place) -> None:
    began = trio.current_time()
    async with two_members(contender, place) as (log, judge, one, other):
        for phase in [phase for phase in contender.phases if phase in BEFORE_THE_LINK]:
            zombie, owner = await owner_first(log, one, other)
            await zombie.arm("stop", phase)
            await owner.arm("stop", Phase.STAGED)
            log.produce(60)
            zombies_hit = await zombie.until_stopped()
            log.expire(zombie.member_id)
            owners_hit = await owner.until_stopped()
            assert number(zombies_hit) == number(owners_hit), "both are at the same link"

            zombie.resume()
            await zombie.next_report("settling its link", lambda report: report.get("phase") == Phase.SETTLED)
            owner.resume()
            await log.until_landed()
            links = (await judge.prove(log.ends))[KEY]
            assert links[number(zombies_hit) - 1].attempt == zombies_hit["attempts"][0], "the zombie's link was adopted"
            assert owners_hit["attempts"][0] not in {link.attempt for link in links}
    print(f"{contender.name}: 2 zombies that win in {trio.current_time() - began:.0f} s")


@each("parquet", "delta", "iceberg")
async def test_zombie_with_swept_files_loses_and_lands_again(contender: Contender, place: Place) -> None:
    """Before the sweep removes files, it takes the number of their link, so the link can never be appended."""
    phase = [phase for phase in contender.phases if phase in BEFORE_THE_LINK][-1]
    async with (
        broker() as log,
        judged(contender, place, log.bootstrap_servers) as judge,
        members(contender, place, log.bootstrap_servers, [TOPIC], config={"session_timeout": 60.0}) as group,
    ):
        member = await group.start()
        await member.join()
        log.produce(10)
        await log.until_landed()
        await member.arm("stop", phase)
        log.produce(10)
        hit = await member.until_stopped()
        assert await judge.sweep() >= 1
        member.resume()
        await log.until_landed()
        links = (await judge.prove(log.ends))[KEY]
        assert [link.kind for link in links] == [Kind.RECORDS, Kind.RESTATED, Kind.RECORDS]
        assert hit["attempts"][0] not in {link.attempt for link in links}
        assert member.sessions == 1
        await group.close()


def number(report: dict[str, Any]) -> int:
    """Return the number of the link that a phase reported."""
    ((_, link, _, _),) = report["links"]
    return int(link)
