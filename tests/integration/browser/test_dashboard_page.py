"""`sarameya dashboard` in Chromium, with two services: the rows match the broker, whichever service owns them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from sarameya.model import topic_partitions
from sarameya.protocol.rebalance import decode_assignment
from sarameya.protocol.versions import Api
from tests.group.kit import Recorder, start_member
from tests.integration.browser.chromium import Browser, Page
from tests.integration.browser.service import Service, running
from tests.integration.browser.test_status_page import number
from tests.integration.test_dashboard_command import url_of
from tests.integration.test_run_command import sarameya

pytestmark = pytest.mark.integration

GROUP = "orders-landing"
LONG = "returns.of.customers-with-long-names"
Rows = list[dict[str, str]]

_STATE_LEFT = """() =>
    document.querySelector("#partitions tbody .state").getBoundingClientRect().left"""


@attrs.frozen
class Stage:
    """Two services of one group, each with its own client id, and the dashboard of both in a browser."""

    cluster: EmbeddedCluster
    services: dict[str, Service]
    page: Page

    def host(self, name: str) -> str:
        return self.services[name].url.removeprefix("http://")

    def owners(self) -> dict[str, str]:
        """Return the owner of each partition according to the broker, named as on the page."""
        members = self.cluster.describe_group(GROUP).members
        return {
            str(one.partition): f"{self.host(member.client_id)} 1"
            for member in members
            for one in (topic_partitions(decode_assignment(member.assignment)[0]) if member.assignment else ())
        }


@asynccontextmanager
async def on_stage(
    directory: Path, browser: Browser, cluster: EmbeddedCluster, topic: str = "orders"
) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        services = {
            name: await stack.enter_async_context(
                running(
                    directory / name,
                    cluster,
                    topics=(topic,),
                    config=f'client_id = "{name}"\nheartbeat_interval = 0.2',
                )
            )
            for name in ("one", "two")
        }
        urls = [argument for service in services.values() for argument in ("--member", service.url)]
        options = ["--bootstrap", cluster.bootstrap_servers[0], "--group", GROUP, "--http", "127.0.0.1:0"]
        dashboard = await stack.enter_async_context(sarameya(directory, "dashboard", *options, *urls, deadline=60))
        page = await stack.enter_async_context(browser.page(await url_of(dashboard)))

        def is_shared(rows: Rows) -> bool:
            counts = {row["Partitions"] for row in rows}
            return len(rows) == 2 and {row["State"] for row in rows} == {"stable"} and len(counts) == 1

        await page.until_rows("members", is_shared, 30)
        await page.until_ready()
        yield Stage(cluster, services, page)


async def test_rows_of_all_members_match_the_broker(tmp_path: Path, browser: Browser) -> None:
    async with EmbeddedCluster(topics={"orders": 4}) as cluster, on_stage(tmp_path, browser, cluster) as stage:
        page = stage.page
        for partition in range(4):
            cluster.produce_many("orders", partition, [(None, b"x")] * (1000 + partition))
        # In one batch, since a partition may not be fetched again while its handler is busy.
        cluster.produce_many("orders", 3, [(None, b"until told"), *[(None, b"x")] * 500])

        def expected_cells() -> dict[str, tuple[str, ...]]:
            """Return the expected cells by partition: owner, position, high watermark, lag, committed offset."""
            owners = stage.owners()
            ends = {partition: cluster.log("orders", partition).high_watermark for partition in range(4)}
            commits = {one.partition: commit.offset for one, commit in cluster.committed(GROUP).items()}
            places = {partition: 1004 if partition == 3 else end for partition, end in ends.items()}
            return {
                str(partition): tuple(
                    [owners.get(str(partition), "nobody")]
                    + [number(n) for n in (places[partition], end, end - places[partition], commits.get(partition, -1))]
                )
                for partition, end in ends.items()
            }

        def matches_broker(rows: Rows) -> bool:
            columns = ("Worker", "Position", "High water mark", "Position lag", "Committed")
            return {row["Partition"]: tuple(row[column] for column in columns) for row in rows} == expected_cells()

        await page.until_rows("partitions", matches_broker)
        assert set(stage.owners().values()) == {f"{stage.host(name)} 1" for name in stage.services}
        members = await page.until_rows("members", lambda rows: {row["State"] for row in rows} == {"stable"})
        group = cluster.describe_group(GROUP)
        assert {(row["Worker"], row["Member"]) for row in members} == {
            (f"{stage.host(member.client_id)} 1", member.member_id) for member in group.members
        }
        assert {row["Process"] for row in members} == {str(one.process.pid) for one in stage.services.values()}
        assert await page.text("#generation") == f"generation {group.generation}"
        assert await page.text("#total-lag") == "501"
        assert await page.do(lambda p: p.locator("#plot-lag").get_attribute("aria-label")) == ("Lag: 501 now, max 501")
        lines = await page.do(lambda p: p.locator("#events > li > span").all_inner_texts())
        assert {line.partition(" ")[0] for line in lines} == {stage.host(name) for name in stage.services}, lines
        for name in stage.services:
            (tmp_path / name / "told").touch()
        await page.do(lambda p: p.locator("#plot-lag[aria-label='Lag: 0 now, max 501']").wait_for())
        await page.until_ready()


async def test_partition_read_by_two_members_has_one_row(tmp_path: Path, browser: Browser) -> None:
    async with EmbeddedCluster(topics={LONG: 2}) as cluster, on_stage(tmp_path, browser, cluster, LONG) as stage:
        page = stage.page

        def shown(rows: Rows) -> dict[str, str]:
            return {row["Partition"]: row["Worker"] for row in rows}

        both = {f"{stage.host(name)} 1" for name in stage.services}
        before = shown(await page.until_rows("partitions", lambda rows: set(shown(rows).values()) == both))
        # The group removes this member, which does not notice and continues with its assignment.
        cluster.delay_next(Api.HEARTBEAT, 600.0, None, client_id="one")
        (expired,) = [one for one in cluster.describe_group(GROUP).members if one.client_id == "one"]
        (contested,) = [partition for partition, who in stage.owners().items() if who == f"{stage.host('one')} 1"]
        cluster.expire_member(GROUP, expired.member_id)
        names = f"{stage.host('one')} 1 and by {stage.host('two')} 1"
        await page.until_text("#reasons", f"{LONG}-{contested}: read by {names}")
        assert await page.text("#ready") == "not ready"
        rows = await page.until_rows("partitions", lambda rows: set(shown(rows).values()) == {f"{stage.host('two')} 1"})
        assert shown(rows) == stage.owners() != before
        assert len(await page.rows("members")) == 2, "its service still reports it"
        # On a phone the state is visible without scrolling, however long the topic's name is.
        await page.do(lambda p: p.set_viewport_size({"width": 390, "height": 844}))
        assert await page.evaluate(_STATE_LEFT) < 260


async def test_members_known_only_to_kafka_have_a_row_each(tmp_path: Path, browser: Browser) -> None:
    """Both members have the same host and the default client id."""
    async with EmbeddedCluster(topics={"orders": 2}) as cluster, trio.open_nursery() as nursery:
        members = [await start_member(nursery, cluster, Recorder(), heartbeat_interval=0.2) for _ in range(2)]
        options = ["--bootstrap", cluster.bootstrap_servers[0], "--group", "g", "--http", "127.0.0.1:0"]
        async with sarameya(tmp_path, "dashboard", *options, deadline=60) as dashboard:
            async with browser.page(await url_of(dashboard)) as page:
                await page.until_rows("members", lambda rows: [row["Partitions"] for row in rows] == ["1", "1"])
                cluster.produce("orders", 0, b"x")
                await page.until_rows("partitions", lambda rows: rows[0]["High water mark"] == "1")
                rows = await page.rows("members")
                assert [row["Worker"] for row in rows] == ["127.0.0.1 sarameya"] * 2
                ids = {member.member_id for member in cluster.describe_group("g").members}
                assert {row["Member"] for row in rows} == ids
                assert (await page.text("#total-records"), await page.text("#total-landed")) == ("–", "–")
        for member in members:
            await member.close()
