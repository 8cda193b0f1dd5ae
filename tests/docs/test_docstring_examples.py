"""Examples in public docstrings run unchanged. The tests replace only their placeholders."""

from __future__ import annotations

import tomllib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import indent
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

import sarameya
import sarameya.asyncio
import sarameya.testing
from sarameya import (
    BatchHandler,
    Config,
    ConsumerGroup,
    ConsumerGroupHandler,
    Format,
    Message,
    MessageHandler,
    Producer,
    RegistryOptions,
    Session,
    TopicConfig,
)
from sarameya.embedded import EmbeddedCluster
from sarameya.testing import ClaimFeed, virtual_wall_clock
from sarameya_handlers import ForeachBatch, SparkSink, with_event_date
from tests.asyncio.kit import cluster_of, run
from tests.docs.docstrings import examples, paragraphs
from tests.group.kit import Recorder, deadline, eventually, fill, orders
from tests.group.standalone_kit import Watched
from tests.producer.kit import log

EXAMPLES = examples()
RUN = {
    "sarameya.Claim.concurrently": 1,
    "sarameya.Consumer": 1,
    "sarameya.Format": 1,
    "sarameya.BatchHandler": 1,
    "sarameya.MessageHandler": 1,
    "sarameya.Producer": 1,
    "sarameya.TopicConfig": 2,
    "sarameya.asyncio.BatchHandler": 1,
    "sarameya.asyncio.Consumer": 1,
    "sarameya.asyncio.ConsumerGroup": 1,
    "sarameya.asyncio.MessageHandler": 1,
    "sarameya.asyncio.Producer": 1,
    "sarameya.testing": 3,
    "sarameya.testing.ClaimFeed": 1,
    "sarameya.embedded": 1,
    "sarameya_handlers.ForeachBatch": 1,
    "sarameya_handlers.SparkSink": 1,
    "sarameya_handlers.with_event_date": 1,
}
"""Number of examples by docstring. Each of these docstrings has a test below."""


class Order(msgspec.Struct):
    number: int


def test_every_example_has_a_test_below() -> None:
    assert {name: len(texts) for name, texts in EXAMPLES.items()} == RUN


def test_indented_paragraphs_are_examples() -> None:
    assert paragraphs(
        "One.\n\n        x = [\n\n            1]\n\n    Two,\n      and more.\n\n        y = 2\n    "
    ) == [
        "x = [\n\n    1]\n",
        "y = 2\n",
    ]
    assert paragraphs("    x = 1\n") == []  # the first line is the summary


def compiled(text: str, names: dict[str, Any], *, end: str = "") -> Callable[[], Awaitable[Any]]:
    """Return a function whose body is the text. `end` is one more line, with the indentation of its block."""
    exec(f"async def example():\n{indent(text + end, '    ')}", names)
    example: Callable[[], Awaitable[Any]] = names["example"]
    return example


async def test_claim_is_read_concurrently(autojump_clock: MockClock) -> None:
    [text] = EXAMPLES["sarameya.Claim.concurrently"]
    names: dict[str, Any] = {"trio": trio}
    exec(f"async def read(self, session, claim):\n{indent(text, '    ')}", names)

    class Handler(ConsumerGroupHandler):
        consume_claim = names["read"]

        async def process(self, session: Session, message: Message) -> None:
            await trio.sleep(3 - message.offset)
            session.mark_message(message)

    feed = ClaimFeed()
    for _ in range(3):
        feed.send(b"")
    feed.end()
    await feed.run(Handler())
    assert feed.committed == 3


async def test_consumer_reads(autojump_clock: MockClock) -> None:
    [text] = EXAMPLES["sarameya.Consumer"]
    messages: list[Message] = []
    async with orders() as cluster, deadline():
        fill(cluster, 3)
        with trio.CancelScope() as scope:

            def receive(message: Message) -> None:
                messages.append(message)
                if len(messages) == 3:
                    scope.cancel()

            names = {"Consumer": lambda _: Watched(cluster), "receive": receive}
            await compiled(text.replace("...", "receive(message)"), names)()
    assert [message.offset for message in messages] == [0, 1, 2]


def test_format_names_a_registry() -> None:
    [text] = EXAMPLES["sarameya.Format"]
    assert eval(text, {"Format": Format}) == Format("avro", registry=RegistryOptions(url="http://registry:8081"))


async def test_message_handler_ships_orders(autojump_clock: MockClock) -> None:
    shipped: list[int] = []

    async def ship(number: int) -> None:
        shipped.append(number)

    [text] = EXAMPLES["sarameya.MessageHandler"]
    names: dict[str, Any] = {"MessageHandler": MessageHandler, "Message": Message, "Order": Order, "ship": ship}
    exec(text, names)
    feed = ClaimFeed("orders")
    feed.send(b'{"number": 7}')
    feed.end()
    await feed.run(names["Orders"]())
    assert shipped == [7]


@pytest.mark.parametrize("name", ["sarameya.BatchHandler", "sarameya.asyncio.BatchHandler"])
async def test_batch_handler_inserts_rows(autojump_clock: MockClock, name: str) -> None:
    inserted: list[list[Any]] = []

    class Ledger:
        async def insert(self, rows: list[Any]) -> None:
            inserted.append(rows)

    [text] = EXAMPLES[name]
    names: dict[str, Any] = {"Message": Message, "Order": bytes, "Sequence": Sequence, "ledger": Ledger()}
    names["BatchHandler"] = BatchHandler
    exec(text, names)
    feed = ClaimFeed("orders")
    for value in (b"1", b"2"):
        feed.send(value)
    feed.end()
    await feed.run(names["Rows"]())
    assert inserted == [[b"1", b"2"]]


async def test_producer_sends(autojump_clock: MockClock) -> None:
    [text] = EXAMPLES["sarameya.Producer"]
    async with orders(2) as cluster, deadline():

        def producer(_: list[str]) -> Producer:
            return Producer(cluster.bootstrap_servers, transport=cluster.transport, wall_clock=virtual_wall_clock)

        place = compiled(text, {"Producer": producer}, end="    return partition, offset\n")
        partition, offset = await place()
        record = log(cluster, partition)[offset]
        assert (record.key, record.value) == (b"key", b"value")


def test_examples_for_asyncio_read_handle_and_send() -> None:
    posted: list[bytes] = []

    class Client:
        async def post(self, url: str, content: bytes) -> None:
            posted.append(content)
            if len(posted) == 2:
                raise ValueError("enough")

    async def main() -> None:
        async with cluster_of({"orders": 1}) as cluster:
            ours = sarameya.asyncio
            names: dict[str, Any] = {"MessageHandler": ours.MessageHandler, "Message": Message, "URL": "orders"}
            servers, config = cluster.bootstrap_servers, Config(offset_initial="oldest")
            names["Producer"] = lambda _: ours.Producer(servers)
            names["ConsumerGroup"] = lambda _, group: ours.ConsumerGroup(servers, group, config)
            names["Consumer"] = lambda _: ours.Consumer(servers)
            [sends] = EXAMPLES["sarameya.asyncio.Producer"]
            assert await compiled(sends, names, end="    return partition, offset\n")() == (0, 0)
            [reads] = EXAMPLES["sarameya.asyncio.Consumer"]
            assert (await compiled(reads.replace("...", "return message"), names)()).key == b"key"
            await cluster.produce("orders", 0, b"2", key=b"key")
            exec(EXAMPLES["sarameya.asyncio.MessageHandler"][0], names)
            names["client"] = Client()
            with pytest.raises(ExceptionGroup):
                await compiled(EXAMPLES["sarameya.asyncio.ConsumerGroup"][0], names)()

    run(main)
    assert posted == [b"value", b"2"]


def test_topic_policy_is_the_same_in_python_and_toml() -> None:
    python, toml = EXAMPLES["sarameya.TopicConfig"]
    config = eval(python, {"Config": Config, "TopicConfig": TopicConfig})
    assert config.topics == Config.from_mapping(tomllib.loads(toml)["config"]).topics
    assert config.topics["orders"].offset_initial == "oldest"
    assert config.offset_initial == "newest"


async def test_group_in_memory_survives_faults(autojump_clock: MockClock) -> None:
    test, faults, check = EXAMPLES["sarameya.testing"]
    names = {**vars(sarameya.testing), "ConsumerGroup": ConsumerGroup}
    clusters: list[EmbeddedCluster] = []

    async def use_cluster(cluster: EmbeddedCluster, group: ConsumerGroup) -> None:
        names["cluster"] = cluster
        clusters.append(cluster)
        async with deadline() as nursery:
            recorder = Recorder()
            nursery.start_soon(group.consume, ["orders"], recorder)
            await eventually(lambda: len(recorder.sessions) == 1)
            exec(check, names)
            exec(faults, names)
            assert len(cluster.faults) == 2
            cluster.produce("orders", 0, b"more")
            await eventually(lambda: len(cluster.faults) == 1)  # the commit succeeds in spite of the fault
            await group.close()

    names["use_cluster"] = use_cluster
    exec(test.replace("...", "await use_cluster(cluster, group)"), names)
    await names["test_orders_are_handled"](autojump_clock)
    assert [sum(one.offset for one in cluster.committed("g").values()) for cluster in clusters] == [2]


async def test_handler_runs_with_a_feed(autojump_clock: MockClock) -> None:
    class Orders(ConsumerGroupHandler):
        total = 0

        async def consume_claim(self, session: sarameya.Session, claim: sarameya.Claim) -> None:
            async for message in claim:
                self.total += int(message.value or b"")
                session.mark_message(message)

    [text] = EXAMPLES["sarameya.testing.ClaimFeed"]
    names: dict[str, Any] = {"ClaimFeed": ClaimFeed, "Orders": Orders}
    exec(text, names)
    await names["test_orders_are_added_up"](autojump_clock)


async def test_embedded_cluster_is_reachable_by_tcp() -> None:
    [text] = EXAMPLES["sarameya.embedded"]
    read: list[bytes | None] = []

    async def check(cluster: EmbeddedCluster) -> None:
        with trio.fail_after(60):
            async with sarameya.Consumer(cluster.bootstrap_servers) as consumer:
                async with consumer.consume_partition("orders", 0, "oldest") as claim:
                    async for message in claim:
                        read.append(message.value)
                        return

    await compiled(text.replace("...", "await check(cluster)"), {"EmbeddedCluster": EmbeddedCluster, "check": check})()
    assert read == [b"value"]


class Rows:
    """A DataFrame that records the calls of its methods."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def record(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            return [("tea", 2)] if name == "collect" else self

        return record


def test_callback_writes_rows_and_link_in_one_transaction() -> None:
    done: list[Any] = []

    class Database:
        @contextmanager
        def begin(self) -> Iterator[str]:
            done.append("begin")
            yield "transaction"
            done.append("commit")

    class Links:
        def record(self, transaction: str, link: str) -> None:
            done.append(("record", transaction, link))

    names: dict[str, Any] = {"database": Database(), "ledger": Links()}
    names["add_up"] = lambda transaction, totals: done.append(("add up", transaction, totals))
    [text] = EXAMPLES["sarameya_handlers.ForeachBatch"]
    exec(text, names)
    assert ForeachBatch(names["foreach_batch"], staging="staging")
    frame = Rows()
    names["foreach_batch"](frame, "sarameya/orders-0/1", "link")
    assert frame.calls == [("groupBy", "item"), ("count",), ("collect",)]
    written = [("add up", "transaction", [("tea", 2)]), ("record", "transaction", "link")]
    assert done == ["begin", *written, "commit"]


async def test_sink_is_used_in_a_group() -> None:
    class Unstarted(SparkSink):
        async def __aenter__(self) -> Unstarted:
            return self

        async def __aexit__(self, *_: object) -> None:
            """Do nothing: no Spark has started."""

    class Group:
        async def consume(self, *arguments: Any) -> None:
            self.consumed = arguments

    group = Group()
    [text] = EXAMPLES["sarameya_handlers.SparkSink"]
    await compiled(text, {"SparkSink": Unstarted, "group": group, "parse": lambda frame: frame})()
    topics, sink = group.consumed
    assert topics == ["orders"]
    assert isinstance(sink, SparkSink)


def test_transform_adds_a_day_column() -> None:
    [text] = EXAMPLES["sarameya_handlers.with_event_date"]
    names: dict[str, Any] = {"with_event_date": with_event_date}
    exec(text, names)
    frame = Rows()
    assert names["shaped"](frame) is frame
    [(call, everything, day)] = frame.calls
    assert (call, everything) == ("selectExpr", "*")
    assert "'2020-01-01'" in day
    assert "'2039-12-31'" in day
