"""Programs of docs/producing.md run unchanged, and its tables match the code."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

import sarameya
from sarameya import Config, Producer
from sarameya.testing import ClaimFeed, memory_cluster, virtual_wall_clock
from sarameya_handlers.landing.dead_letters.letters import DeadLetter
from sarameya_handlers.landing.dead_letters.options import dead_letters
from sarameya_handlers.landing.dead_letters.topic import PREFIX
from sarameya_handlers.spark.poison.poison_search import Tolerance
from tests.docs.pages import ROOT, blocks, page
from tests.handlers.landing.test_dead_letters import LINK, files, topic_letters
from tests.producer.kit import log

PAGE = page("producing")
UNITS = {"s": 1, "MiB": 2**20}
LETTER = DeadLetter(offset=1, error="e", timestamp=1)


async def test_example_sends_its_records(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    exec("\n".join(blocks(PAGE, "python")), names)
    async with memory_cluster({"orders": 2}) as cluster:

        def producer(servers: list[str], config: Config) -> Producer:
            return Producer(servers, config, transport=cluster.transport, wall_clock=virtual_wall_clock)

        names["Producer"] = producer
        partition, offset, places = await names["main"](cluster.bootstrap_servers)
        assert log(cluster, partition)[offset].headers == (("source", b"shop"),)
        assert len(log(cluster, 0)) + len(log(cluster, 1)) == 1 + len(places) == 1001


async def test_typed_records_are_sent(autojump_clock: MockClock) -> None:
    async with memory_cluster({"invoices": 1}) as cluster:

        class Here(Producer[Any, Any]):
            def __init__(self, servers: list[str], **options: Any) -> None:
                super().__init__(servers, transport=cluster.transport, wall_clock=virtual_wall_clock, **options)

        names: dict[str, Any] = {}
        exec("\n".join(blocks(PAGE, "python")), names)
        names["Producer"] = Here
        await names["bill"](cluster.bootstrap_servers)
        sent = [(message.key, message.value) for message in log(cluster, 0, "invoices")]
    assert sent == [(b"ann", b'{"customer":"ann","cents":300}'), (b"bob", None)]


async def test_orders_become_invoices(autojump_clock: MockClock) -> None:
    """Orders that were not committed are invoiced again. The invoices of each customer are in order."""
    names: dict[str, Any] = {}
    exec("\n".join(blocks(PAGE, "python")), names)
    feed = ClaimFeed("orders")
    for number in range(20):
        customer = b"%d" % (number % 3)
        feed.send(b'{"customer": "%s", "cents": %d}' % (customer, number), key=customer)
    async with memory_cluster({"invoices": 1}) as cluster:
        options = {"transport": cluster.transport, "wall_clock": virtual_wall_clock}
        async with Producer[Any, str](
            cluster.bootstrap_servers, value_format="json", key_format="string", **options
        ) as producer:
            feed.lose()
            await feed.run(names["Billing"](producer))
            assert feed.committed == 0
            feed.end()
            await feed.run(names["Billing"](producer))
        sent = log(cluster, 0, "invoices")
    assert feed.committed == 20
    numbers = [int(dict(message.headers)["origin"].rpartition(b"/")[2]) for message in sent]
    assert sorted(numbers) == sorted([*range(20), *range(20)])
    for part in (sent[:20], sent[20:]):
        for rest in range(3):
            cents = [json.loads(message.value)["cents"] for message in part if message.key == b"%d" % rest]
            assert cents == list(range(rest, 20, 3))


def test_program_of_the_page_equals_the_example() -> None:
    (block,) = [block for block in blocks(PAGE, "python") if "class Billing" in block]
    assert block[block.index("class Billing") :] in (ROOT / "examples" / "invoices.py").read_text(encoding="utf-8")


def test_defaults_equal_the_options() -> None:
    config = Config()
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]+) \|", PAGE, re.MULTILINE))
    for name, default in rows.items():
        number, _, unit = default.strip().partition(" ")
        assert getattr(config, name) == (float(number) * UNITS[unit] if unit else number)
    assert rows.keys() >= {"delivery_timeout", "produce_batch_bytes", "max_request_bytes", "compression"}


def test_named_errors_exist() -> None:
    names = set(re.findall(r"`([A-Z]\w+Error)`", PAGE))
    assert len(names) == 9
    assert names <= set(sarameya.__all__)


async def test_dead_letter_headers_equal_the_code(autojump_clock: MockClock) -> None:
    rows = re.findall(r"^\| (`__.*?) \|", PAGE, re.MULTILINE)
    cells = [name for row in rows for name in re.findall("`(.*?)`", row)]
    named = {name if name.startswith(PREFIX) else PREFIX + name[1:] for name in cells}
    async with memory_cluster({"dead": 1}) as cluster, topic_letters(cluster) as letters:
        await letters.write(LINK, [LETTER])
        (message,) = log(cluster, topic="dead")
    assert {name for name, _ in message.headers} == named


async def test_dead_letter_columns_equal_the_code(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    (columns,) = re.findall(r"In files these are the columns (.*?), the time of writing", PAGE, re.DOTALL)
    async with dead_letters({"path": str(tmp_path)}) as letters:
        await letters.write(LINK, [LETTER])
    (path,) = files(tmp_path)
    own = {"key", "value", "headers", "timestampType"}
    assert set(pq.read_schema(path).names) == set(re.findall(r"`(\w+)`", columns)) | own


def test_dead_letter_option_is_accepted() -> None:
    (block,) = blocks(PAGE, "toml")
    options = tomllib.loads(block)["handler"]["options"]["dead_letters"]
    assert dead_letters(options).name == "topic orders.dead"


def test_tolerance_equals_the_code() -> None:
    assert "more than half of a batch, or 1,000. Up to ten" in PAGE
    assert Tolerance() == Tolerance(share=0.5, records=1_000, few=10)
