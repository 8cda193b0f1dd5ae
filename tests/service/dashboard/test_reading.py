"""What answers at a member's URL may be anything: it is a document of the page's, or a line says why it is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sarameya.observe import HandlerOverdue
from sarameya.service.dashboard.merging import Kafkas, merged
from sarameya.service.dashboard.reading import Document, status_of
from sarameya.service.web.document import document, news
from sarameya.service.web.health import Health
from sarameya.service.web.recent import Recent
from sarameya.service.web.series import Point, Series
from sarameya.status import OverdueHandler
from tests.service.dashboard.test_merging import group
from tests.service.web.made import ORDERS_0, ORDERS_1, heard, partition
from tests.service.web.test_recent import landed


def told() -> Document:
    """As a member's service tells it."""
    recent, series = Recent(lambda: 1000.0), Series()
    series.add(Point(1000.0, 5, 1.0, 2.0))
    recent(landed(5))
    recent(HandlerOverdue(ORDERS_0, 5, 9, 66.0, "f\n"))
    recent.failed(ExceptionGroup("two", [ValueError("a"), OSError("b")]))
    overdue = OverdueHandler(partition=ORDERS_0, offset=5, last_offset=9, seconds=66.0, stack="f\n")
    members = [heard(partition(overdue=overdue), partition(of=ORDERS_1), happenings=tuple(recent))]
    said = document("g", members, Health((), ()), series, wall_clock=1000.0, stopping="")
    document_of_it: Document = json.loads(json.dumps({**said, **news(members), "point": series.last}))
    return document_of_it


def test_what_a_service_tells_is_taken_as_it_is() -> None:
    said = told()
    assert said["events"]
    assert said["landings"]
    assert status_of(json.dumps(said).encode(), "g") == said
    assert status_of(json.dumps({**said, "point": {}}).encode(), "g") == {**said, "point": {}}


@pytest.mark.parametrize(
    "body", [b"", b"<html>no</html>", b"\xff\xfe", b"[" * 100_000, b'{"a": NaN}', b'{"a": ' + b"1" * 5000 + b"}"]
)
def test_what_is_no_json(body: bytes) -> None:
    assert status_of(body, "g") == "no status: what its endpoint answers is no JSON"


@pytest.mark.parametrize("body", [b"1", b"null", b"[]", b"{}", b'{"group": 7}'])
def test_what_is_no_status_page(body: bytes) -> None:
    assert status_of(body, "g") == "no status: what its endpoint answers is no status page's"


def test_status_of_another_group_is_refused() -> None:
    assert status_of(json.dumps({**told(), "group": "h"}).encode(), "g") == (
        "no status: its endpoint is one of the group 'h'"
    )


def test_status_of_a_version_before_overdue_handlers_is_taken() -> None:
    said = told()
    for row in said["partitions"]:
        del row["overdue"]
    for event in said["events"]:
        del event["stack"]
    assert status_of(json.dumps(said).encode(), "g") == said


def drop(*path: str | int) -> Callable[[Document], None]:
    def change(said: Any) -> None:
        for step in path[:-1]:
            said = said[step]
        del said[path[-1]]

    return change


def put(value: object, *path: str | int) -> Callable[[Document], None]:
    def change(said: Any) -> None:
        for step in path[:-1]:
            said = said[step]
        said[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (drop("landings"), "landings is missing"),
        (drop("partitions", 0, "landed"), "partitions[0].landed is missing"),
        (put(7, "members"), "members is no list"),
        (put(7, "members", 0), "members[0] is no object"),
        (put(None, "members", 0, "state"), "members[0].state is no text"),
        (put([], "members", 0, "member_id"), "members[0].member_id is no text"),
        (put("5", "partitions", 0, "lag"), "partitions[0].lag is no number"),
        (put(True, "partitions", 0, "lag"), "partitions[0].lag is no number"),
        (put(2**63, "partitions", 0, "lag"), "partitions[0].lag is no number"),
        (put({}, "reasons"), "reasons is no list"),
        (put([7], "explained"), "explained[0] is no text"),
        (put({"at": 1}, "point"), "point.lag is missing"),
        (put(None, "landings", 0, "landing"), "landings[0].landing is no object"),
        (put("x", "landings", 0, "landing", "seconds"), "landings[0].landing.seconds is no number"),
        (put({"text": "a"}, "events", 0, "tree"), "events[0].tree.inner is missing"),
        (put([{}], "events", 0, "tree", "inner"), "events[0].tree.inner[0].text is missing"),
        (put("0.0.1", "version"), None),
    ],
)
def test_what_is_odd_in_it_is_named(change: Callable[[Document], None], why: str | None) -> None:
    said = told()
    change(said)
    found = status_of(json.dumps(said).encode(), "g")
    assert found == (said if why is None else f"no status: {why}")
    page = merged(Kafkas(group(), {}, {}), {"a:1": found}, 1000.0)
    json.dumps(page, allow_nan=False)
    assert why is None or f"a:1: no status: {why}" in page["reasons"]


def test_infinity_is_no_number() -> None:
    body = json.dumps(told()).replace('"lag":0', '"lag":1e999').replace('"lag": 0', '"lag": 1e999').encode()
    assert b"1e999" in body
    assert status_of(body, "g") == "no status: partitions[0].lag is no number"


def test_old_version_is_named_beside_what_is_missing() -> None:
    said = told()
    drop("explained")(said)
    found = status_of(json.dumps({**said, "version": "0.0.1"}).encode(), "g")
    assert isinstance(found, str)
    assert found.startswith("no status: explained is missing; its version is 0.0.1, and this one's ")


def test_tree_that_is_too_deep_is_refused() -> None:
    said, tree = told(), {"text": "", "inner": list[Any]()}
    for _ in range(100):
        tree = {"text": "", "inner": [tree]}
    put(tree, "events", 0, "tree")(said)
    found = status_of(json.dumps(said).encode(), "g")
    assert isinstance(found, str)
    assert found.endswith("is too deep")
