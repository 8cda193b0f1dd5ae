"""All targets accept their seeds, mutations of them, and any bytes. `python -m tests.fuzz` does the same for longer."""

from __future__ import annotations

import os
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutations import mutated
from tests.fuzz.targets import TARGETS

SOAK = int(os.environ.get("SARAMEYA_SOAK", "1"))


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_accepted(name: str) -> None:
    for seed in TARGETS[name].seeds():
        TARGETS[name].run(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_bytes_raise_only_typed_errors(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=600 * SOAK, suppress_health_check=[HealthCheck.too_slow])
    @given(seed=st.sampled_from(list(target.seeds())), rng=st.randoms(use_true_random=False))
    def attack(seed: bytes, rng: Random) -> None:
        target.run(mutated(rng, seed))

    attack()


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes_raise_only_typed_errors(name: str) -> None:
    @settings(max_examples=200 * SOAK)
    @given(st.binary(max_size=300))
    def attack(data: bytes) -> None:
        TARGETS[name].run(data)

    attack()
