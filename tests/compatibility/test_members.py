"""A rolling upgrade, as the group's members see it: one of this build among two that say what the old build said.

What this covers: subscriptions, assignments and user data of each assignor, both ways, with this build as the leader
and as a follower, in the same generations as when all three were old. What it does not: the old build's code does not
run; and what members say to brokers is Kafka's protocol, which other tests hold.
"""

from __future__ import annotations

import json

import pytest
from trio.testing import MockClock

from tests.compatibility.kit import FIXTURES
from tests.compatibility.members import NAMES, PARTITIONS, STRATEGIES, TOPIC, Round, play, topic_partitions

RECORDED = json.loads((FIXTURES / "members.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("new", NAMES)
@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_member_of_this_build_among_old_ones(strategy: str, new: str, autojump_clock: MockClock) -> None:
    recorded = [Round.of(told) for told in RECORDED[strategy]]

    outcome = await play(strategy, {new}, recorded)

    found = outcome.rounds
    assert [one.leader for one in found] == [one.leader for one in recorded]
    assert [one.assignments for one in found] == [one.assignments for one in recorded]
    assert [one.subscriptions for one in found] == [one.subscriptions for one in recorded]
    assert topic_partitions(recorded[-1].assignments[new]) <= outcome.started(new).keys()


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one != "roundrobin"])
async def test_added_partitions_are_read_from_their_start(strategy: str, autojump_clock: MockClock) -> None:
    """c came after they were added: only the old leader's user data says that they were."""
    outcome = await play(strategy, {"c"}, [Round.of(told) for told in RECORDED[strategy]])

    started = outcome.started("c")
    assert {(tp.topic, tp.partition): (one.offset, one.why) for tp, one in started.items()} == {
        (TOPIC, number): (0, "added") for number in range(PARTITIONS, PARTITIONS + 2)
    }
