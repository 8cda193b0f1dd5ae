"""Programs of docs/message-handlers.md run unchanged, and its texts match the code."""

from __future__ import annotations

import json
import sys
import threading
import tomllib
import types
from textwrap import indent
from typing import Any, ClassVar

import pytest
import trio
from trio.testing import MockClock

from sarameya import ConsumerGroupHandler, Message, MessageHandler, Retry, Session
from sarameya.handling.letters import ERRORS
from sarameya.handling.options import ORDERINGS
from sarameya.service.app.handler_factory import build_handler
from sarameya.testing import ClaimFeed
from tests.docs.pages import blocks, page
from tests.formats.kit import framed, small_registry

PAGE = page("message-handlers")


class Service:
    """The service of the page's examples. It refuses `bad`, and fails once."""

    def __init__(self) -> None:
        self.booked: list[bytes | None] = []
        self.fails = True

    async def book(self, value: bytes | None) -> None:
        await trio.sleep(1)
        if value == b"bad":
            raise ValueError("refused")
        if self.fails:
            self.fails = False
            raise OSError("busy")
        self.booked.append(value)


@pytest.fixture
def shown() -> dict[str, Any]:
    names: dict[str, Any] = {"Service": Service, "Refuses": Service, "trio": trio, "table": None, "work": None}
    programs = [block for block in blocks(PAGE, "python") if not block.startswith("# WRONG")]
    exec("\n".join(programs), names)
    return names


async def test_orders_are_booked(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    service, feed = Service(), ClaimFeed("orders")
    for number in range(60):
        feed.send(b"%d" % number, key=b"%d" % (number % 20))
    feed.end()
    await feed.run(shown["Orders"](service))
    assert len(service.booked) == 60
    assert feed.committed == 60


async def test_orders_are_decoded_and_added_up(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    feed, sums = ClaimFeed("orders"), shown["Sums"]()
    for cents in (300, 400):
        feed.send(b'{"customer": "ann", "cents": %d}' % cents)
    feed.end()
    await feed.run(sums)
    assert sums.cents == {"ann": 700}
    feed.send(b'{"customer": "ann", "cents": "5"}')
    with pytest.raises(ExceptionGroup) as raised:
        await feed.run(sums)
    error = str(raised.value.exceptions[0].__cause__).replace("`", "")
    assert error.replace("offset 2", "offset 5") in " ".join(PAGE.split())


async def test_avro_orders_are_added_up(
    autojump_clock: MockClock, shown: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = [{"name": "customer", "type": "string"}, {"name": "cents", "type": "int"}, {"name": "more", "type": "int"}]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    feed, sums = ClaimFeed("orders"), shown["AvroSums"]()
    with small_registry(monkeypatch) as registry:
        feed.send(framed(registry.register("orders-value", schema), b"\x06ann\x0e\x00"))
        feed.end()
        await feed.run(sums)
    assert sums.cents == {"ann": 7}


async def test_test_of_the_page_passes(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    await shown["test_order_that_is_refused_is_a_dead_letter"](autojump_clock)


async def test_own_tasks_mark_one_message_each(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    async def work(message: Any) -> None:
        await trio.sleep(10 - message.offset)

    shown["work"] = work
    feed = ClaimFeed("orders")
    for _ in range(5):
        feed.send(b"")
    feed.end()
    await feed.run(shown["Own"]())
    assert feed.committed == 5


async def test_failed_payments_go_through_all_topics(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    class Fails(shown["Payments"]):  # type: ignore[misc]
        async def handle(self, message: Message) -> None:
            raise ValueError("refused")

    topic, headers, topics = "payments", (), []
    while topic != "payments.group.dead":
        feed = ClaimFeed(topic)
        feed.send(b"1", headers=headers)
        feed.end()
        await feed.run(Fails())
        (sent,) = feed.sent
        topic, headers = sent.topic, sent.headers
        topics.append(topic)
    assert topics == ["payments.group.retry.1m", "payments.group.retry.1h", "payments.group.dead"]
    assert dict(headers)["__sarameya.errors.attempts"] == b"9"


def test_options_of_an_app_file_are_accepted(shown: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    shop = types.ModuleType("shop")
    vars(shop).update(shown, Busy=type("Busy", (Exception,), {}))
    monkeypatch.setitem(sys.modules, "shop", shop)
    [text] = blocks(PAGE, "toml")
    given = tomllib.loads(text)["handler"]
    handler: Any = build_handler(given["name"], given["options"])
    assert handler.retry == Retry(attempts=5, backoff=1.0, on=(OSError, vars(shop)["Busy"]))
    assert (handler.concurrency, handler.dead_letters.topic) == (100, "payments.dead")


async def test_orders_are_inserted_in_batches(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    class Table:
        rows: ClassVar[list[Any]] = []

        async def insert(self, rows: list[Any]) -> None:
            self.rows.append([row.cents for row in rows])

    shown["table"] = Table()
    feed = ClaimFeed("orders")
    for cents in (b"1", b"two", b"3"):
        feed.send(b'{"customer": "ann", "cents": ' + cents + b"}")
    feed.end()
    await feed.run(shown["Inserts"]())
    assert Table.rows == [[1, 3]]
    assert len(feed.sent) == 1


async def test_dead_letters_are_kept_by_a_function(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    class Table:
        rows: ClassVar[list[tuple[Any, ...]]] = []

        async def insert(self, *row: Any) -> None:
            self.rows.append(row)

    shown["table"] = Table()
    orders, feed = shown["Orders"](Service()), ClaimFeed("orders")
    orders.dead_letters = shown["keep"]
    feed.send(b"bad")
    feed.end()
    await feed.run(orders)
    assert Table.rows == [("orders", 0, 0, b"bad", "refused")]


async def test_rows_are_written_in_threads(shown: dict[str, Any]) -> None:
    executed: list[tuple[str, tuple[bytes, ...], bool]] = []

    class Connection:
        def execute(self, statement: str, values: tuple[bytes, ...]) -> None:
            executed.append((statement, values, threading.current_thread() is threading.main_thread()))

    shown["connection"] = Connection
    feed = ClaimFeed("orders")
    feed.send(b"1")
    feed.end()
    await feed.run(shown["Rows"]())
    assert executed == [("INSERT INTO orders VALUES (?)", (b"1",), False)]


async def test_wrong_example_loses_messages(autojump_clock: MockClock) -> None:
    [text] = [block for block in blocks(PAGE, "python") if block.startswith("# WRONG")]
    names: dict[str, Any] = {"trio": trio}

    async def process_and_mark(session: Session, message: Message) -> None:
        await trio.sleep(0 if message.offset == 5 else 1000)
        session.mark_message(message)

    names["process_and_mark"] = process_and_mark
    exec(f"async def read(self, session, claim):\n{indent(text, '    ')}", names)

    class Wrong(ConsumerGroupHandler):
        consume_claim = names["read"]

    feed = ClaimFeed("orders")
    for _ in range(8):
        feed.send(b"")
    async with trio.open_nursery() as nursery:
        await nursery.start(feed.run, Wrong())
        await trio.sleep(20)
        assert feed.committed == 6
        feed.lose(now=True)


def test_page_names_the_retry_topics_and_defaults(shown: dict[str, Any]) -> None:
    payments = shown["Payments"]
    for tier in range(2):
        assert f"`{payments.retry_topics.name_for('payments', 'GROUP', tier)}`" in PAGE
    assert f"`{payments.dead_letters.name_for('payments', 'GROUP')}`" in PAGE
    assert f"`concurrency` ({MessageHandler.concurrency} by default)" in PAGE
    assert all(f'`"{ordering}"`' in PAGE for ordering in ORDERINGS)


async def test_page_names_all_headers(autojump_clock: MockClock, shown: dict[str, Any]) -> None:
    feed = ClaimFeed("orders")
    feed.send(b"bad")
    feed.end()
    await feed.run(shown["Orders"](Service()))
    for name, _ in feed.sent[0].headers:
        short = name.removeprefix(ERRORS)
        assert f".{short}`" in PAGE or f".{short.rpartition('.')[2]}`" in PAGE or f"`{name}`" in PAGE
