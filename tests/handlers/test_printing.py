from __future__ import annotations

import io
import json

import pytest

from sarameya import ConfigError, MessageBatch
from sarameya_handlers import PrintHandler
from tests.handlers.kit import FakeSession, batch, claim_of, message


async def printed(*messages: object, **options: str) -> list[str]:
    stream = io.StringIO()
    handler = PrintHandler(stream=stream, **options)
    await handler.consume_claim(FakeSession(), claim_of([MessageBatch("orders", 0, messages, 99)]))
    return stream.getvalue().splitlines()


async def test_text_prints_coordinates_key_and_value_of_each_message() -> None:
    assert await printed(message(41, key=b"a", value=b"1"), message(42, key=b"b", value="ü".encode())) == [
        "orders-0@41 a 1",
        "orders-0@42 b ü",
    ]


async def test_text_shows_null_and_invalid_utf8_differently() -> None:
    assert await printed(message(1, key=None, value=b"\xff")) == ["orders-0@1 ∅ \\xff"]


async def test_json_prints_an_object_for_each_message() -> None:
    lines = await printed(message(7, key=None, value=b"\xff", headers=(("h", b"x"), ("n", None))), format="json")
    assert [json.loads(line) for line in lines] == [
        {
            "topic": "orders",
            "partition": 0,
            "offset": 7,
            "timestamp": 1_700_000_000_007,
            "key": None,
            "value": {"hex": "ff"},
            "headers": [["h", "x"], ["n", None]],
        }
    ]


async def test_line_breaks_inside_a_json_message_stay_inside_its_line() -> None:
    (line,) = await printed(message(7, value=b"two\nlines"), format="json")
    assert json.loads(line)["value"] == "two\nlines"


async def test_each_batch_is_marked_at_its_next_offset() -> None:
    session = FakeSession()
    await PrintHandler(stream=io.StringIO()).consume_claim(session, claim_of([batch(0, 3), batch(3, 2, next_offset=9)]))
    assert session.marks == [("orders", 0, 3), ("orders", 0, 9)]


async def test_failing_stream_raises_and_marks_nothing() -> None:
    stream, session = io.StringIO(), FakeSession()
    stream.close()
    with pytest.raises(ValueError, match="closed file"):
        await PrintHandler(stream=stream).consume_claim(session, claim_of([batch(0, 1)]))
    assert session.marks == []


def test_unknown_format_is_refused_with_the_allowed_ones() -> None:
    with pytest.raises(ConfigError, match="format = 'xml': must be one of 'text', 'json'"):
        PrintHandler.from_options({"format": "xml"})
    with pytest.raises(ConfigError, match=r"format = \['xml'\]: must be one of 'text', 'json'"):
        PrintHandler.from_options({"format": ["xml"]})


def test_unknown_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="formt = 'json': no such option; did you mean 'format'"):
        PrintHandler.from_options({"formt": "json"})
