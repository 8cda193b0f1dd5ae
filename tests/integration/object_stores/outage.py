"""A landing during which the object store becomes unavailable."""

from __future__ import annotations

import pytest

from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.owners import Owner, at
from tests.integration.object_stores.gateway import Gateway


def land_while_away(owner: Owner, gateway: Gateway, phase: Phase) -> int:
    """Land five rows after five others, kill the gateway at `phase`, restart it, and settle the link.

    Returns:
        The chain's end: 10 if the link has landed, 5 otherwise.
    """
    link = owner.propose(5)
    try:
        with pytest.raises(OSError, match="orders"):  # noqa: PT012 - either call may fail
            owner.land(link, at(phase, gateway.kill))
            owner.settle(link)
    finally:
        gateway.kill()
        gateway.start()
    end = 10 if owner.settle(link).outcome is Outcome.LANDED else 5
    assert end == (10 if phase is Phase.LINKED else 5)
    return end
