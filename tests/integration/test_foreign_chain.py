"""`sarameya run` with a table that remembers a topic of another cluster, or of a broker that has been started anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from sarameya.embedded import EmbeddedCluster
from tests.integration.test_run_command import app_file, errors_of

pytestmark = pytest.mark.integration

HANDLER = """
from sarameya import ConsumerGroupHandler
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.landing.starting import Log, begin

class Foreign(ConsumerGroupHandler):
    "Does as the sink does that finds such a chain."
    async def start_offset(self, partition, committed):
        key, before = ChainKey("sarameya", *partition), Origin(group="g", topic_id="1" * 32)
        head = Link(key=key, number=1, from_offset=0, to_offset=9, attempt="a", origin=before, leader_epoch=0)
        begin(key, Origin(group="g", topic_id="2" * 32), head, committed, Log(start=0, end=0))

    async def consume_claim(self, session, claim):
        raise AssertionError("nothing may be read")
"""


async def test_run_ends_with_what_must_change_first_though_the_app_says_restart(tmp_path: Path) -> None:
    (tmp_path / "foreign.py").write_text(HANDLER)
    service = '[service]\non_failure = "restart"\nrestart_backoff = 0.1'
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers, handler="foreign:Foreign", extra=service)
        (error,) = await errors_of(tmp_path, "run", app, code=2, within=15.0)
    assert error.endswith("this is another cluster; land it as another sink, or in another table")
