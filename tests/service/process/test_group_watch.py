from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from sarameya.config import Config
from sarameya.embedded import EmbeddedCluster
from sarameya.errors import ConfigError
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.service.app.app_file import App, HandlerSection
from sarameya.service.process.group_watch import Distance, GroupWatch, watch_group
from sarameya.service.process.signals import Stop
from tests.service.groups.kit import tp


class FakePageSource:
    """A display that records its updates."""

    total: int | None = None

    def __init__(self) -> None:
        self.updates: list[tuple[int, str]] = []

    def __call__(self, total: int | None) -> FakePageSource:
        self.total = total
        return self

    def update(self, done: int, note: str = "") -> None:
        if (done, note) not in self.updates:
            self.updates.append((done, note))

    def print_line(self, line: str) -> None:
        raise AssertionError(line)

    async def until(self, *updates: tuple[int, str]) -> None:
        while self.updates != list(updates):
            await trio.sleep(0.01)


def app(cluster: EmbeddedCluster, *topics: str, pattern: str | None = None, config: Config | None = None) -> App:
    return App(
        bootstrap_servers=tuple(cluster.bootstrap_servers),
        group="g",
        topics=topics,
        topics_pattern=pattern,
        handler=HandlerSection("print"),
        config=config or Config(),
    )


@pytest.fixture(autouse=True)
def short_poll_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sarameya.service.process.group_watch.POLL_INTERVAL", 0.01)


@asynccontextmanager
async def watched(of: App, *, until_end: bool) -> AsyncIterator[tuple[FakePageSource, Stop, GroupAdmin]]:
    shown, stop = FakePageSource(), Stop()
    with trio.fail_after(20):
        async with (
            GroupAdmin(of.bootstrap_servers, of.config, lambda event: None) as admin,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(GroupWatch(of, stop, shown, until_end).run)
            yield shown, stop, admin
            nursery.cancel_scope.cancel()


def test_distance_counts_from_the_first_known_offsets() -> None:
    distance = Distance({tp("a-0"): 5, tp("a-1"): 0, tp("a-2"): 9}, {tp("a-0"): 10, tp("a-1"): 3, tp("a-2"): 7})
    assert distance.total == 8
    assert distance.done({tp("a-0"): 7, tp("a-1"): 100, tp("b-0"): 50}) == 5
    assert distance.done({tp("a-0"): 3}) == 0, "an offset that moved back does not count"


async def test_run_ends_once_the_initial_log_is_committed() -> None:
    async with EmbeddedCluster({"orders": 2, "empty": 1}) as cluster:
        cluster.produce_many("orders", 0, [(None, b"x")] * 5)
        cluster.produce_many("orders", 1, [(None, b"x")] * 3)
        async with watched(app(cluster, "orders", "empty"), until_end=True) as (shown, stop, admin):
            await shown.until((0, ""))
            cluster.produce_many("orders", 1, [(None, b"x")] * 3)
            await admin.commit("g", {tp("orders-0"): 5, tp("orders-1"): 2})
            await shown.until((0, ""), (7, ""))
            assert not stop.is_requested
            await admin.commit("g", {tp("orders-1"): 3})
            await stop.wait()
        assert (shown.total, shown.updates[-1]) == (8, (8, ""))


@pytest.mark.parametrize("quiet", [True, False])
async def test_progress_of_the_group_is_shown_unless_quiet(quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        cluster.produce_many("orders", 0, [(None, b"x")] * 5)
        async with GroupAdmin(cluster.bootstrap_servers, Config(), lambda event: None) as admin:
            await admin.commit("g", {tp("orders-0"): 5})
        stop = Stop()
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch_group("landed", until_end=True, quiet=quiet), app(cluster, "orders"), stop)
                await stop.wait()
        assert capsys.readouterr().err == ("" if quiet else "landed: 0 of 0 (0%)\n")


async def test_read_committed_ends_before_an_open_transaction() -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"x")
        cluster.produce_transactional("orders", 0, b"y", producer_id=1)
        for level, total in ("read_committed", 1), ("read_uncommitted", 2):
            of = app(cluster, "orders", config=Config(isolation_level=level))  # type: ignore[arg-type]
            async with watched(of, until_end=True) as (shown, _, _):
                await shown.until((0, ""))
                assert shown.total == total


async def test_endless_run_shows_remaining_and_new_records() -> None:
    async with EmbeddedCluster({"orders-a": 1, "other": 1}) as cluster:
        cluster.produce_many("orders-a", 0, [(None, b"x")] * 5)
        cluster.produce("other", 0, b"x")
        async with watched(app(cluster, pattern="orders-.*"), until_end=False) as (shown, stop, admin):
            await shown.until((0, "5 to go"))
            await admin.commit("g", {tp("orders-a-0"): 5})
            await shown.until((0, "5 to go"), (5, "0 to go"))
            cluster.create_topic("orders-b", 1)
            cluster.produce("orders-b", 0, b"x")
            await shown.until((0, "5 to go"), (5, "0 to go"), (5, "1 to go"))
            assert (stop.is_requested, shown.total) == (False, None)


async def test_run_until_end_with_unmatched_pattern_is_refused() -> None:
    async with EmbeddedCluster({"other": 1}) as cluster:
        of, stop = app(cluster, pattern="zzz.*"), Stop()
        with trio.fail_after(20), pytest.raises(ConfigError, match=r"topics_pattern = 'zzz.\*': matches no topic"):
            await GroupWatch(of, stop, FakePageSource(), until_end=True).run()
        assert not stop.is_requested


async def test_endless_run_waits_for_a_matching_topic() -> None:
    async with EmbeddedCluster({"other": 1}) as cluster:
        async with watched(app(cluster, pattern="zzz.*"), until_end=False) as (shown, _, _):
            await shown.until((0, "0 to go"))
            cluster.create_topic("zzz", 1)
            cluster.produce("zzz", 0, b"x")
            await shown.until((0, "0 to go"), (0, "1 to go"))


async def test_missing_topic_is_waited_for() -> None:
    async with EmbeddedCluster({"other": 1}) as cluster:
        async with watched(app(cluster, "orders"), until_end=True) as (shown, stop, _):
            for _ in range(5):
                await trio.sleep(0.02)
            assert (shown.updates, stop.is_requested) == ([], False)
            cluster.create_topic("orders", 1)
            await stop.wait()
