"""The schedule of a seed is the same each time, suits its components, and contains every kind of fault."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

from tests.chaos.faults import FAULTS
from tests.chaos.plan import GAP, KINDS, MAINTENANCE, ROUND_SECONDS, SERVICES, Fault, concerned, rounds

SOME = 12


def test_schedule_of_a_seed_does_not_depend_on_its_length() -> None:
    assert list(islice(rounds(7), 3)) == list(islice(rounds(7), SOME))[:3]
    assert list(islice(rounds(7), 3)) != list(islice(rounds(8), 3))


def test_faults_of_a_component_do_not_overlap_and_come_in_order() -> None:
    for faults in islice(rounds(7), SOME):
        assert list(faults) == sorted(faults)
        assert all(fault.at < ROUND_SECONDS for fault in faults)
        for component in KINDS:
            own = [fault for fault in faults if fault.component == component]
            assert own, f"{component} has no fault"
            assert all(later.at - early.at - early.seconds >= GAP[0] for early, later in pairwise(own))


def test_faults_of_different_components_overlap() -> None:
    faults = next(rounds(7))
    assert any(later.at < early.at + early.seconds for early, later in pairwise(faults))


def test_kinds_of_faults_are_equally_frequent() -> None:
    scheduled = [(fault.component, fault.kind) for faults in islice(rounds(7), SOME) for fault in faults]
    for component, kinds in KINDS.items():
        times = Counter(kind for name, kind in scheduled if name == component)
        assert times.keys() == kinds.keys()
        assert max(times.values()) - min(times.values()) <= 1


def test_durations_and_draws_are_within_bounds() -> None:
    for faults in islice(rounds(7), SOME):
        for fault in faults:
            least, most = KINDS[fault.component][fault.kind]
            assert least <= fault.seconds <= most
            assert 0 <= fault.draw < 1


def test_every_kind_has_a_function() -> None:
    assert {kind for kinds in KINDS.values() for kind in kinds} == FAULTS.keys()


def test_concerned_services_are_those_that_a_fault_can_delay() -> None:
    def services(component: str, kind: str) -> tuple[str, ...]:
        return concerned(Fault(0.0, component, kind, 0.0, 0.0))

    assert services("delta", "full_disk") == ("delta",)
    assert services("kafka", "kill_broker") == services("machine", "full_tmp") == SERVICES
    assert {services("machine", kind) for kind in MAINTENANCE} == {("parquet",)}
