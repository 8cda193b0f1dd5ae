"""The planner: a seed's schedule is the same each time, fits its components, and deals every kind."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

from tests.chaos.faults import FAULTS
from tests.chaos.plan import GAP, KINDS, MAINTENANCE, ROUND_SECONDS, SERVICES, Fault, concerned, rounds

SOME = 12


def test_seed_gives_the_same_schedule_whatever_its_length() -> None:
    assert list(islice(rounds(7), 3)) == list(islice(rounds(7), SOME))[:3]
    assert list(islice(rounds(7), 3)) != list(islice(rounds(8), 3))


def test_faults_of_a_component_do_not_overlap_and_come_in_order() -> None:
    for faults in islice(rounds(7), SOME):
        assert list(faults) == sorted(faults)
        assert all(fault.at < ROUND_SECONDS for fault in faults)
        for component in KINDS:
            row = [fault for fault in faults if fault.component == component]
            assert row, f"{component} is left alone"
            assert all(later.at - early.at - early.seconds >= GAP[0] for early, later in pairwise(row))


def test_faults_of_different_components_overlap() -> None:
    faults = next(rounds(7))
    assert any(later.at < early.at + early.seconds for early, later in pairwise(faults))


def test_kinds_are_dealt_evenly() -> None:
    dealt = [(fault.component, fault.kind) for faults in islice(rounds(7), SOME) for fault in faults]
    for component, kinds in KINDS.items():
        times = Counter(kind for of, kind in dealt if of == component)
        assert times.keys() == kinds.keys()
        assert max(times.values()) - min(times.values()) <= 1


def test_durations_and_draws_are_within_bounds() -> None:
    for faults in islice(rounds(7), SOME):
        for fault in faults:
            least, most = KINDS[fault.component][fault.kind]
            assert least <= fault.seconds <= most
            assert 0 <= fault.draw < 1


def test_every_kind_can_be_carried_out() -> None:
    assert {kind for kinds in KINDS.values() for kind in kinds} == FAULTS.keys()


def test_services_that_a_fault_concerns_are_those_it_can_hold_up() -> None:
    def of(component: str, kind: str) -> tuple[str, ...]:
        return concerned(Fault(0.0, component, kind, 0.0, 0.0))

    assert of("delta", "full_disk") == ("delta",)
    assert of("kafka", "kill_broker") == of("machine", "full_tmp") == SERVICES
    assert {of("machine", kind) for kind in MAINTENANCE} == {("parquet",)}
