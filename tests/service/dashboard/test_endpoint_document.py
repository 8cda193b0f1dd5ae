"""Documents from the URL of a member, which may return anything: a valid status, or a line with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sarameya.observe import HandlerOverdue
from sarameya.service.dashboard.endpoint_document import Document, parse_document
from sarameya.service.dashboard.group_document import KafkaView, merge_documents
from sarameya.service.monitor.health import Health
from sarameya.service.monitor.recent_events import EventRecorder
from sarameya.service.web.status_document import document, history
from sarameya.service.web.time_series import Point, TimeSeries
from sarameya.status import OverdueHandler
from tests.service.dashboard.test_group_document import group
from tests.service.monitor.kit import ORDERS_0, ORDERS_1, partition, worker_status
from tests.service.monitor.test_recent_events import landed


def member_document() -> Document:
    """Return a document as a member's service sends it."""
    recent, series = EventRecorder(lambda: 1000.0), TimeSeries()
    series.add(Point(1000.0, 5, 1.0, 2.0))
    recent(landed(5))
    recent(HandlerOverdue(ORDERS_0, 5, 9, 66.0, "f\n"))
    recent.record_failure(ExceptionGroup("two", [ValueError("a"), OSError("b")]))
    overdue = OverdueHandler(partition=ORDERS_0, offset=5, last_offset=9, seconds=66.0, stack="f\n")
    members = [worker_status(partition(overdue=overdue), partition(of=ORDERS_1), happenings=tuple(recent))]
    status = document("g", members, Health((), ()), series, wall_clock=1000.0, stopping="")
    decoded: Document = json.loads(json.dumps({**status, **history(members), "point": series.last}))
    return decoded


def test_document_of_a_service_is_accepted_unchanged() -> None:
    status = member_document()
    assert status["events"]
    assert status["landings"]
    assert parse_document(json.dumps(status).encode(), "g") == status
    assert parse_document(json.dumps({**status, "point": {}}).encode(), "g") == {**status, "point": {}}


@pytest.mark.parametrize(
    "body", [b"", b"<html>no</html>", b"\xff\xfe", b"[" * 100_000, b'{"a": NaN}', b'{"a": ' + b"1" * 5000 + b"}"]
)
def test_body_that_is_not_json_is_refused(body: bytes) -> None:
    assert parse_document(body, "g") == "no status: the endpoint's answer is no JSON"


@pytest.mark.parametrize("body", [b"1", b"null", b"[]", b"{}", b'{"group": 7}'])
def test_json_that_is_not_a_status_is_refused(body: bytes) -> None:
    assert parse_document(body, "g") == "no status: the endpoint's answer is no status page"


def test_status_of_another_group_is_refused() -> None:
    assert parse_document(json.dumps({**member_document(), "group": "h"}).encode(), "g") == (
        "no status: its endpoint belongs to the group 'h'"
    )


def test_status_without_overdue_handlers_is_accepted() -> None:
    status = member_document()
    for row in status["partitions"]:
        del row["overdue"]
    for event in status["events"]:
        del event["stack"]
    assert parse_document(json.dumps(status).encode(), "g") == status


def drop(*path: str | int) -> Callable[[Document], None]:
    def change(status: Any) -> None:
        for step in path[:-1]:
            status = status[step]
        del status[path[-1]]

    return change


def put(value: object, *path: str | int) -> Callable[[Document], None]:
    def change(status: Any) -> None:
        for step in path[:-1]:
            status = status[step]
        status[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (drop("landings"), "missing required field `landings`"),
        (drop("partitions", 0, "landed"), "missing required field `landed` - at `$.partitions[0]`"),
        (put(7, "members"), "Expected `array`, got `int` - at `$.members`"),
        (put(7, "members", 0), "Expected `object`, got `int` - at `$.members[0]`"),
        (put(None, "members", 0, "state"), "Expected `str`, got `null` - at `$.members[0].state`"),
        (put([], "members", 0, "member_id"), "Expected `str`, got `array` - at `$.members[0].member_id`"),
        (put("5", "partitions", 0, "lag"), "Expected `float`, got `str` - at `$.partitions[0].lag`"),
        (put(True, "partitions", 0, "lag"), "Expected `float`, got `bool` - at `$.partitions[0].lag`"),
        (put(2**63, "partitions", 0, "lag"), "Expected `float` < 9.223372036854776e+18 - at `$.partitions[0].lag`"),
        (put({}, "reasons"), "Expected `array`, got `object` - at `$.reasons`"),
        (put([7], "explained"), "Expected `str`, got `int` - at `$.explained[0]`"),
        (put({"at": 1}, "point"), "missing required field `lag`"),
        (put(None, "landings", 0, "landing"), "Expected `object`, got `null` - at `$.landings[0].landing`"),
        (put("x", "landings", 0, "landing", "seconds"), "at `$.landings[0].landing.seconds`"),
        (put({"text": "a"}, "events", 0, "tree"), "missing required field `inner` - at `$.events[0].tree`"),
        (put([{}], "events", 0, "tree", "inner"), "missing required field `text` - at `$.events[0].tree.inner[0]`"),
        (put("0.0.1", "version"), None),
    ],
)
def test_invalid_field_is_named(change: Callable[[Document], None], why: str | None) -> None:
    status = member_document()
    change(status)
    found = parse_document(json.dumps(status).encode(), "g")
    if why is None:
        assert found == status
    else:
        assert isinstance(found, str)
        assert why in found
    page = merge_documents(KafkaView(group(), {}, {}), {"a:1": found}, 1000.0)
    json.dumps(page, allow_nan=False)
    assert why is None or f"a:1: {found}" in page["reasons"]


def test_infinite_number_is_refused() -> None:
    body = json.dumps(member_document()).replace('"lag":0', '"lag":1e999').replace('"lag": 0', '"lag": 1e999').encode()
    assert b"1e999" in body
    assert parse_document(body, "g") == "no status: the endpoint's answer is no JSON"


def test_missing_field_is_reported_with_the_old_version() -> None:
    status = member_document()
    drop("explained")(status)
    found = parse_document(json.dumps({**status, "version": "0.0.1"}).encode(), "g")
    assert isinstance(found, str)
    assert "`explained`" in found
    assert "; its version is 0.0.1, the dashboard's is " in found


def test_too_deep_tree_is_refused() -> None:
    status, tree = member_document(), {"text": "", "inner": list[Any]()}
    for _ in range(100):
        tree = {"text": "", "inner": [tree]}
    put(tree, "events", 0, "tree")(status)
    found = parse_document(json.dumps(status).encode(), "g")
    assert isinstance(found, str)
    assert found == "no status: an event's tree is too deep"
