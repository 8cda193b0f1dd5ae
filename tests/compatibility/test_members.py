"""A rolling upgrade of a group: one member of this build among two that replay the bytes of the old build.

The tests cover subscriptions, assignments and user data of each assignor in both directions, with this build as the
leader and as a follower, in the generations that the old build recorded. The old build's code does not run. Requests to
brokers are Kafka's protocol, which other tests cover.
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
async def test_member_of_this_build_works_among_old_members(strategy: str, new: str, autojump_clock: MockClock) -> None:
    recorded = [Round.of(generation) for generation in RECORDED[strategy]]

    outcome = await play(strategy, {new}, recorded)

    found = outcome.rounds
    assert [one.leader for one in found] == [one.leader for one in recorded]
    assert [one.assignments for one in found] == [one.assignments for one in recorded]
    assert [one.subscriptions for one in found] == [one.subscriptions for one in recorded]
    assert topic_partitions(recorded[-1].assignments[new]) <= outcome.started(new).keys()


@pytest.mark.parametrize("strategy", [one for one in STRATEGIES if one != "roundrobin"])
async def test_added_partitions_are_read_from_their_start(strategy: str, autojump_clock: MockClock) -> None:
    """Member c joins after the partitions were added. Only the old leader's user data marks them as added."""
    outcome = await play(strategy, {"c"}, [Round.of(generation) for generation in RECORDED[strategy]])

    started = outcome.started("c")
    assert {(tp.topic, tp.partition): (one.offset, one.why) for tp, one in started.items()} == {
        (TOPIC, number): (0, "added") for number in range(PARTITIONS, PARTITIONS + 2)
    }
