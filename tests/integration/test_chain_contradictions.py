"""`sarameya run` with a table that contradicts the topic or the group's offset: one attempt, then exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from sarameya.embedded import EmbeddedCluster
from tests.integration.test_run_command import app_file, errors_of

pytestmark = pytest.mark.integration

HANDLER = """
from sarameya import CommittedOffset, ConsumerGroupHandler
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.landing.chain_start import Log, choose_chain_start

class Moved(ConsumerGroupHandler):
    "Behaves like the sink when the group's offset was moved beyond the chain's end."
    async def start_offset(self, partition, committed):
        print("start_offset", flush=True)
        key, origin = ChainKey("sarameya", *partition), Origin(group="g", topic_id="1" * 32)
        head = Link(key=key, number=1, from_offset=0, to_offset=9, attempt="a", origin=origin, leader_epoch=0)
        choose_chain_start(key, origin, head, CommittedOffset(20), Log(start=0, end=30))

    async def consume_claim(self, session, claim):
        raise AssertionError("nothing may be read")

class Foreign(ConsumerGroupHandler):
    "Behaves like the sink when the chain is of another topic."
    async def start_offset(self, partition, committed):
        key, before = ChainKey("sarameya", *partition), Origin(group="g", topic_id="1" * 32)
        head = Link(key=key, number=1, from_offset=0, to_offset=9, attempt="a", origin=before, leader_epoch=0)
        choose_chain_start(key, Origin(group="g", topic_id="2" * 32), head, committed, Log(start=0, end=0))

    async def consume_claim(self, session, claim):
        raise AssertionError("nothing may be read")
"""


async def test_permanent_error_ends_the_run_despite_restart(tmp_path: Path) -> None:
    (tmp_path / "foreign.py").write_text(HANDLER)
    service = '[service]\non_failure = "restart"\nrestart_backoff = 0.1'
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers, handler="foreign:Foreign", extra=service)
        (error,) = await errors_of(tmp_path, "run", app, code=2, within=60.0)
    assert error.endswith("or this is another cluster. Use a new table, or set `name` under [handler.options].")


async def test_fault_64_offset_beyond_the_chain_ends_the_run_once(tmp_path: Path) -> None:
    """A person must move it back. A restart would only start another JVM each time."""
    (tmp_path / "foreign.py").write_text(HANDLER)
    service = '[service]\non_failure = "restart"\nrestart_backoff = 0.1'
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers, handler="foreign:Moved", extra=service)
        (error,) = await errors_of(tmp_path, "run", app, code=2, within=60.0)
    assert "the group's committed offset is 20, beyond the link's end" in error
    assert (tmp_path / "stdout").read_text() == "start_offset\n"
