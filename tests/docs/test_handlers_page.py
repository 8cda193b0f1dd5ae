"""Programs of docs/handlers.md run unchanged, and its tables are complete."""

from __future__ import annotations

import inspect
import re
import sys
import types
from typing import Any

import pytest
from trio.testing import MockClock

import sarameya
from sarameya import Config, ConfigError, ConsumerGroup, ConsumerGroupHandler, Session
from sarameya.service.app.handler_factory import build_handler, default_options
from sarameya.testing import ClaimFeed, run_inline, virtual_wall_clock
from tests.docs.pages import blocks, page
from tests.group.kit import orders

PAGE = page("handlers")


@pytest.fixture
def shown() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec("\n".join(blocks(PAGE, "python")), names)
    return names


async def test_totals_cover_one_session(
    autojump_clock: MockClock, shown: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    feed, totals = ClaimFeed("orders"), shown["Totals"]()
    for _ in range(2):
        feed.send(b"3")
        feed.send(b"4")
        feed.end()
        await feed.run(totals)
    assert totals.totals == {0: 7}
    assert capsys.readouterr().out == "this session: 7\n" * 2
    assert feed.committed == 4


async def test_remaining_rows_are_written_after_the_loop(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    feed, collected = ClaimFeed("orders"), shown["Collected"]()
    for _ in range(250):
        feed.send(b"1")
    feed.end()
    await feed.run(collected)
    assert collected.written == [100, 100, 50]
    assert feed.committed == 250


async def test_rows_are_written_once_despite_failing_commits(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    feed, table = ClaimFeed("orders"), shown["Table"]()
    for number in range(3):
        feed.send(b"%d" % number)
    feed.lose()
    await feed.run(shown["Once"](table))
    assert feed.committed in (0, None)
    feed.send(b"3")
    feed.end()
    await feed.run(shown["Once"](table))
    assert table.rows == [b"0", b"1", b"2", b"3"]


async def test_failures_are_logged_with_their_offsets(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    async with orders(1) as cluster:
        cluster.produce("orders", 0, b"3")
        cluster.produce("orders", 0, b"four")
        group = ConsumerGroup(
            cluster.bootstrap_servers,
            "g",
            Config(offset_initial="oldest"),
            transport=cluster.transport,
            run_sync=run_inline,
            wall_clock=virtual_wall_clock,
        )
        async with group:
            [(offset, cause)] = await shown["until_it_fails"](group)
        assert offset in (1, 2)
        assert "four" in cause
        assert [one.offset for one in cluster.committed("g").values()] == [1]


async def test_options_are_checked_and_their_defaults_known(
    autojump_clock: MockClock,
    shown: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = types.ModuleType("shown_on_the_page")
    vars(module).update(shown)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    name = f"{module.__name__}:Above"
    assert default_options(name) == {"limit": 100}
    feed = ClaimFeed("orders")
    feed.send(b"5")
    feed.send(b"101")
    feed.end()
    await feed.run(build_handler(name, {}))
    assert capsys.readouterr().out == "1\n"
    with pytest.raises(ConfigError, match=r"^limit = 'x': must be a whole number$"):
        build_handler(name, {"limit": "x"})
    with pytest.raises(ConfigError, match=r"^limti = 5: unknown option: the only option is limit$"):
        build_handler(name, {"limti": 5})


def test_table_lists_every_handler_method() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    calls = [name for name, _ in inspect.getmembers(ConsumerGroupHandler, inspect.isfunction) if name[0] != "_"]
    assert sorted(documented) == sorted(calls)


def test_names_exist() -> None:
    for owner, name in re.findall(r"`(?:await )?(session|group)\.(\w+)", PAGE):
        assert hasattr({"session": Session, "group": ConsumerGroup}[owner], name)
    for name in re.findall(r"`(\w+Error)s?`", PAGE):
        assert hasattr(sarameya, name)
    for name in ("claim_grace", "autocommit_interval", "autocommit"):
        assert hasattr(Config(), name)
