"""The status page in Chromium: it matches the broker, and stays up to date without reloading."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest
import trio

from sarameya import TopicPartition
from sarameya.embedded import EmbeddedCluster
from tests.integration.browser.chromium import Browser
from tests.integration.browser.service import running
from tests.integration.processes import is_running

pytestmark = pytest.mark.integration

Rows = list[dict[str, str]]


def by_number(rows: Rows) -> Rows:
    """Sort rows by topic and number: the page has stalled partitions first."""
    return sorted(rows, key=lambda row: (row["Topic"], int(row["Partition"])))


def number(offset: int) -> str:
    return f"{offset:,}" if offset >= 0 else "–"


def expected_cells(cluster: EmbeddedCluster, partition: int, topic: str = "orders") -> dict[str, str]:
    """Return the cells that a row must have for a partition that was read to its end."""
    end = cluster.log(topic, partition).high_watermark
    commit = cluster.committed("orders-landing").get(TopicPartition(topic, partition))
    return {
        "Topic": topic,
        "Partition": str(partition),
        "Lag": "0",
        "Position": number(end),
        "High water mark": number(end),
        "Committed": number(-1 if commit is None else commit.offset),
    }


def has_cells(row: dict[str, str], wanted: dict[str, str]) -> bool:
    return wanted.items() <= row.items()


async def test_rows_match_the_broker_and_are_updated(tmp_path: Path, browser: Browser) -> None:
    async with EmbeddedCluster(topics={"orders": 3, "returns": 1}) as cluster:
        cluster.produce_many("orders", 0, [(None, b"x" * 100)] * 1500)
        topics = ("orders", "returns")
        async with running(tmp_path, cluster, topics=topics) as service, browser.page(service.url) as page:
            await page.until_ready()

            def all_read(rows: Rows) -> bool:
                wanted = [*(expected_cells(cluster, p) for p in range(3)), expected_cells(cluster, 0, "returns")]
                return len(rows) == 4 and all(map(has_cells, rows, wanted))

            first = await page.until_rows("partitions", all_read)
            assert [row["Position"] for row in first] == ["1,500", "0", "0", "0"]
            assert {row["State"].partition(" for ")[0] for row in first} == {"fetching"}
            (member,) = await page.rows("members")
            group = cluster.describe_group("orders-landing")
            assert (member["Generation"], member["Member"]) == (str(group.generation), group.members[0].member_id)
            assert (member["State"], member["Partitions"], member["Process"]) == (
                "stable",
                "4",
                str(service.process.pid),
            )
            assert await page.text("#group") == "orders-landing"
            assert await page.text("#total-lag") == "0"
            assert await page.do(lambda p: p.title()) == "ready · orders-landing · Sarameya"
            assert "15" not in await page.do(lambda p: p.locator("#plot-records").get_attribute("aria-label") or "")

            await page.evaluate("() => { window.loaded = true }")
            for _ in range(20):
                cluster.produce_many("orders", 1, [(None, b"x" * 100)] * 100)
                cluster.produce("returns", 0, b"x")
                await trio.sleep(0.1)
            moved = await page.until_rows("partitions", all_read)
            assert [row["Position"] for row in moved] == ["1,500", "2,000", "0", "20"]
            assert float(moved[1]["Messages/s"].replace(",", "")) > 0
            label = await page.do(lambda p: p.locator("#plot-records").get_attribute("aria-label") or "")
            most = re.fullmatch(r"Messages a second: [\d,.]+ now, max ([\d,.]+)", label)
            assert most is not None, label
            assert float(most[1].replace(",", "")) >= 100
            assert await page.evaluate("() => window.loaded"), "the page was reloaded"


async def test_partition_states_are_shown(tmp_path: Path, browser: Browser) -> None:
    config = "max_processing_time = 1.0\nchannel_buffer_fetches = 1"
    async with (
        EmbeddedCluster(topics={"orders": 5}) as cluster,
        running(tmp_path, cluster, config=config, service="stall_after = 4.0") as service,
        browser.page(service.url) as page,
    ):
        await page.until_ready()
        for partition, command in enumerate([b"slow 600", b"slow 600", b"pause", b"land 600", b"land 0.1"]):
            cluster.produce("orders", partition, command)
        cluster.produce("orders", 4, b"retry the catalog is locked by <b>another</b>")
        # Messages of the same fetch as the first one are not buffered, so they would cause no backpressure.
        await page.until_rows("partitions", lambda rows: rows[1]["State"].startswith("in handler"))
        # In one batch, since later records are not fetched, and their high watermark stays unknown.
        cluster.produce_many("orders", 1, [(None, b"x" * 1000)] * 500, batch_bytes=2**20)

        def states(rows: Rows) -> list[str]:
            return [row["State"] for row in rows]

        wanted = [
            r"in handler for \d+ s",
            r"backpressured for \d+ s",
            r"paused for \d+ s",
            r"landing for \d+ s",
            r"retrying \(attempt 2\) for \d+ s: the catalog is locked by <b>another</b>",
        ]

        def as_wanted(rows: Rows) -> bool:
            return len(rows) == 5 and all(map(re.fullmatch, wanted, states(by_number(rows))))

        rows = by_number(await page.until_rows("partitions", as_wanted))
        end = cluster.log("orders", 1).high_watermark
        assert (rows[1]["Position"], rows[1]["High water mark"]) == ("1", number(end))
        assert (rows[1]["Position lag"], rows[1]["Lag"]) == (number(end - 1), number(end))
        assert re.fullmatch(r"\d+ s|\d+ min \d+ s", rows[1]["Oldest"])
        assert rows[4]["Landed"] == "1"
        landings = await page.rows("landings")
        assert [row["Result"] for row in landings] == ["failed: the catalog is locked by <b>another</b>", "landed"]
        shown = {key: landings[1][key] for key in ("Topic", "Partition", "Offsets", "Rows", "Size", "Seconds")}
        assert shown == {
            "Topic": "orders",
            "Partition": "4",
            "Offsets": "0 to 1",
            "Rows": "1,234",
            "Size": "5 MiB",
            "Seconds": "0.25",
        }
        # A pause is explained, but is no reason for "not ready". All other partitions are stalled.
        await page.until_text("#reasons", "orders-4: no progress")
        reasons = (await page.text("#reasons ul")).splitlines()
        stalled = [line.partition(":")[0] for line in reasons]
        assert stalled == ["orders-0", "orders-1", "orders-3", "orders-4"]
        assert await page.text("#ready") == "not ready"
        assert re.fullmatch(r"orders-2: paused for \d+ s", await page.text("#explained ul"))
        # Stalled partitions are listed first.
        await page.until_rows(
            "partitions", lambda rows: [row["Partition"] for row in rows] == ["0", "1", "3", "4", "2"]
        )
        code, text = await service.answer("/readyz")
        assert code == 503
        assert [line.partition(":")[0] for line in text.splitlines()[:5]] == ["not ready", *stalled]
        assert (await service.answer("/healthz"))[0] == 200


async def test_stopped_broker_is_shown_with_its_attempts(tmp_path: Path, browser: Browser) -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("orders", 4, replication_factor=1)
        async with (
            running(tmp_path, cluster, config="retry_max_attempts = 900", service="stall_after = 3.0") as service,
            browser.page(service.url) as page,
        ):
            await page.until_ready()
            (member,) = await page.until_rows("members", lambda rows: rows[0]["Coordinator"].isdigit())
            stopped = 1 - int(member["Coordinator"])
            await cluster.stop_broker(stopped)

            def retrying_states(rows: Rows) -> list[str]:
                found = [row["State"] for row in rows if row["State"].startswith("retrying")]
                pattern = r"retrying \(attempt \d+ of 900\) for \d+ s: "
                return found if all(re.match(pattern, state) for state in found) else []

            rows = await page.until_rows("partitions", lambda rows: len(retrying_states(rows)) == 2)
            bad = [row["Partition"] for row in rows if row["State"].startswith("retrying")]
            assert rows[:2] == [row for row in rows if row["Partition"] in bad], "retrying partitions are listed first"
            names = ", ".join(f"orders-{partition}" for partition in bad)
            await page.until_text("#reasons", f"2 partitions ({names}): no progress for")
            assert len((await page.text("#reasons ul")).splitlines()) == 1, "equal reasons share a line"
            await cluster.start_broker(stopped)
            await page.until_rows("partitions", lambda rows: all(r["State"].startswith("fetching") for r in rows))
            await page.do(lambda p: p.locator("#reasons").wait_for(state="hidden"))


async def test_failure_is_shown_as_a_tree_of_plain_text(tmp_path: Path, browser: Browser) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        restart = 'on_failure = "restart"\nrestart_backoff = 2.0'
        group = "orders <img src=x onerror=alert(1)>"
        async with running(tmp_path, cluster, service=restart, group=group) as service:
            async with browser.page(service.url) as page:
                await page.until_ready()
                cluster.produce("orders", 0, b"fail")
                await page.until_text("#reasons", "it has failed: ClaimError: orders-0 at offset 1")
                failed = await page.until_rows("members", lambda rows: rows[0]["State"].startswith("failed"))
                assert failed[0]["State"].startswith("failed: ClaimError: orders-0")
                await page.do(lambda p: p.locator("#events summary").first.click())
                tree = page.page.locator("#events details > ul").first
                lines = (await page.do(lambda _: tree.inner_text())).splitlines()
                assert lines[0].startswith("ClaimError: orders-0 at offset 1")
                assert lines[1:] == [
                    "ExceptionGroup: two of them (2 sub-exceptions)",
                    "ValueError: cannot do <i>that</i>",
                    "OSError: [Errno 28] No space left on device; while <b>writing</b>",
                ]
                depths = await page.do(
                    lambda _: tree.evaluate("list => list.querySelectorAll(':scope > li > ul > li > ul > li').length")
                )
                assert depths == 2
                assert await page.text("#group") == group
                assert await page.do(lambda p: p.locator("main img, main i, li b b").count()) == 0
                await page.until_ready()
                await page.until_rows("members", lambda rows: rows[0]["State"] == "stable")
                assert await page.do(lambda _: tree.is_visible()), "the opened tree stays open"


async def test_killed_worker_is_shown_and_restarted(tmp_path: Path, browser: Browser) -> None:
    async with (
        EmbeddedCluster(topics={"orders": 4}) as cluster,
        running(
            tmp_path,
            cluster,
            "--workers",
            "2",
            config="session_timeout = 6.0\nheartbeat_interval = 1.0",
            service='on_failure = "restart"\nrestart_backoff = 2.0',
        ) as service,
        browser.page(service.url) as page,
    ):
        cluster.produce_many("orders", 0, [(None, b"x")] * 10)

        def both(rows: Rows) -> bool:
            return [row["State"] for row in rows] == ["stable", "stable"] and {r["Partitions"] for r in rows} == {"2"}

        before = await page.until_rows("members", both, 30)
        pids = [int(row["Process"]) for row in before]
        assert service.process.pid not in pids
        assert sorted(row["Worker"] for row in await page.rows("partitions")) == ["1", "1", "2", "2"]
        os.kill(pids[0], signal.SIGKILL)
        rows = await page.until_rows(
            "members", lambda rows: rows[0]["State"].startswith("failed: was killed by SIGKILL; restarting in ")
        )
        lines = await page.do(lambda p: p.locator("#events > li > span").all_inner_texts())
        assert lines[0] == "worker 1 was killed by SIGKILL"
        assert {line.partition(" session started")[0] for line in lines if "session started" in line} == {
            "worker 1",
            "worker 2",
        }
        assert (rows[0]["Partitions"], rows[1]["Worker"]) == ("–", "2")
        await page.until_text("#reasons", "worker 1: was killed by SIGKILL")
        assert {row["Worker"] for row in await page.rows("partitions")} == {"2"}, "no worker reads the other partitions"
        after = await page.until_rows("members", both, 30)
        assert int(after[0]["Process"]) not in pids
        await page.until_ready()
        service.process.send_signal(signal.SIGINT)
        with trio.fail_after(15):
            assert await service.process.wait() == 0
        assert not any(map(is_running, [*pids, int(after[0]["Process"])]))
        assert "Traceback" not in service.log.read_text()


async def test_stopping_and_stopped_service_is_shown(tmp_path: Path, browser: Browser) -> None:
    config = "claim_grace = 15.0\nclose_timeout = 20.0"
    async with (
        EmbeddedCluster(topics={"orders": 1}) as cluster,
        running(tmp_path, cluster, config=config) as service,
        browser.page(service.url) as page,
    ):
        await page.until_ready()
        cluster.produce("orders", 0, b"slow 8")
        await page.until_rows("partitions", lambda rows: rows[0]["State"].startswith("in handler"))
        service.process.send_signal(signal.SIGINT)
        await page.until_text("#ready", "stopping")
        await page.until_text("#states", "SIGINT")
        await page.until_rows("partitions", lambda rows: rows[0]["State"].startswith("revoking"))
        assert (await service.answer("/readyz"))[0] == 503
        with trio.fail_after(20):
            assert await service.process.wait() == 0
        await page.until_text("#connection", "does not respond")
        assert "Traceback" not in service.log.read_text()
