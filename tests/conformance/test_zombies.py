"""Owners that stop in the middle of a landing while another owner continues, at exact phases, without a group."""

from __future__ import annotations

import pytest

from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.contenders import Contender, Place, Runs
from tests.conformance.owners import Owner, Takeover, at, check_zombie_loses, check_zombie_wins

pytestmark = pytest.mark.landing(what="stopped")


def test_zombie_loses_to_a_landed_link_or_is_adopted(contender: Contender, place: Place) -> None:
    table = contender.table(place)
    before = [phase for phase in (Phase.STAGED, Phase.READY, Phase.WRITTEN) if phase in contender.phases]
    # Sizes of the zombie's batch and the owner's. With Spark, which takes a second each, only the dangerous case.
    sizes = [(8, 3), (3, 8)] if contender.runs is Runs.THREADS else [(8, 3)]
    with contender.sessions(place, 2) as sessions:
        table.open(sessions[0])
        both = Takeover(table, contender.shape, sessions)
        assert both.zombie().append(5).outcome is Outcome.LANDED
        for zombies, owners in sizes:
            for phase in before:
                check_zombie_loses(both, phase, zombies, owners)
            check_zombie_wins(both, before[-1], zombies, owners)
            check_linked_zombie_wins(both, zombies, owners)
        both.prove()


def check_linked_zombie_wins(both: Takeover, zombies: int, owners: int) -> None:
    """Stop the zombie when its link exists, and let another owner land the next link: both links stay."""
    zombie, found = both.zombie(), list[Owner]()
    end = zombie.position + zombies + owners

    def take_over() -> None:
        found.append(owner := both.owner())
        assert owner.append(owners).outcome is Outcome.LANDED

    assert zombie.append(zombies, at(Phase.LINKED, take_over)).outcome is Outcome.LANDED
    assert zombie.position == found[0].position == end
