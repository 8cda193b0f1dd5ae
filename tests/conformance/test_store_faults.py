"""An object store fails now and then. The sink goes on without a restart, and lands each record once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from sarameya_handlers.landing.stores import clients
from sarameya_handlers.spark.tables.table import Landing, Phase
from tests.conformance.contenders import Contender, Place, each
from tests.conformance.sink_sessions import prove_leftovers_unused, run_session
from tests.integration.object_stores.proxy import Fault, proxy_of
from tests.integration.object_stores.server import StoreServer

pytestmark = pytest.mark.landing(what="store faults")

END = 40
BATCH_RECORDS = 4
SOUND, SPOILED = 5, 2
"""Requests that are executed, and after them requests that are spoiled: as many as the client tries."""
BURSTS = 4


@each("parquet-s3", "parquet-azure", "delta-adopted-s3")
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=() if fault is Fault.LOST else pytest.mark.exhaustive, id=fault.name.lower())
        for fault in Fault
    ],
)
async def test_sink_goes_on_after_faults_of_the_store(
    contender: Contender, place: Place, fault: Fault, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_RESPONSE_SECONDS", 1)
    monkeypatch.setattr(clients, "_RETRIES", 1)
    assert contender.cloud is not None
    store: StoreServer = request.getfixturevalue(contender.cloud)
    numbers, spoiled = count(), []

    def spoil(method: str, path: str) -> Fault | None:
        cycle, number = divmod(next(numbers), SOUND + SPOILED)
        if cycle < BURSTS and number >= SOUND:
            spoiled.append(path)
            return fault
        return None

    with proxy_of(store.endpoint) as proxy:
        store.set_environment(monkeypatch, proxy.url)
        table = contender.table(place)

        def on_phase(phase: Phase, landings: Sequence[Landing]) -> None:
            proxy.spoil = spoil

        await run_session(contender, place, END, on_phase, table=table, max_rows=BATCH_RECORDS, waits=True)
        assert len(spoiled) == BURSTS * SPOILED, "landing went on after the last fault"
    store.set_environment(monkeypatch)
    prove_leftovers_unused(contender, place, None, END, may_leave=True)
