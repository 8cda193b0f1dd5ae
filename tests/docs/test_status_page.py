"""docs/status-page.md lists every path, state and metric, and its alerts use metrics that exist."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml
from prometheus_client import Metric

from sarameya import ConsumerGroup
from sarameya.service.app.app_file import SERVICE_KEYS, ServiceSection
from sarameya.service.monitor.local_members import LocalMembers
from sarameya.service.monitor.otel import EXPORT_TIMEOUT
from sarameya.service.web.host_check import AllowedHosts
from sarameya.service.web.metrics import MetricsCollector
from sarameya.service.web.routes import make_routes
from sarameya.service.web.status_board import StatusBoard
from sarameya.status import Activity
from sarameya.telemetry.otel_metrics import INTERVAL, export_metrics
from sarameya.telemetry.otel_tracing import MOST_LINKS, context_of
from sarameya.telemetry.prometheus import GroupCollector
from tests.docs.pages import blocks, page

PAGE = page("status-page")


def shown_name(metric: Metric) -> str:
    return metric.name + ("_total" if metric.type == "counter" else "")


def row(metric: Metric) -> str:
    labels = ", ".join(label for label in metric._labelnames if label not in ("group", "worker"))  # type: ignore[attr-defined]
    return f"| `{shown_name(metric)}` | {metric.type} | {labels} | {metric.documentation} |"


def own_metrics() -> list[Metric]:
    return list(MetricsCollector(StatusBoard("g", LocalMembers([]), stall_after=1.0, why_stopping=lambda: "")).own())


async def test_every_metric_has_its_row() -> None:
    rows = re.findall(r"^\| `sarameya_.*", PAGE, re.MULTILINE)
    assert rows == [row(metric) for metric in own_metrics()]


async def test_alerts_are_on_metrics_that_exist() -> None:
    metrics = {shown_name(metric) for metric in own_metrics()}
    alerts = set(re.findall(r"sarameya_\w+", blocks(PAGE, "yaml")[1]))
    assert len(alerts) >= 6
    assert alerts <= metrics


async def test_alerts_match_type_and_labels_of_their_metrics() -> None:
    """Prometheus reports no error for a sum by a missing label, nor for the increase of a gauge."""
    kinds = {shown_name(metric): metric.type for metric in own_metrics()}
    labels = {shown_name(metric): {*metric._labelnames} for metric in own_metrics()}  # type: ignore[attr-defined]
    [alerts] = [group["rules"] for group in yaml.safe_load(blocks(PAGE, "yaml")[1])["groups"]]
    for alert in alerts:
        expression = alert["expr"]
        for by, name in re.findall(r"by \(([\w, ]+)\) \((?:\w+\()?(sarameya_\w+)", expression):
            assert {*by.split(", ")} <= labels[name], expression
        for call, name in re.findall(r"(increase|deriv)\((sarameya_\w+)\[", expression):
            assert kinds[name] == {"increase": "counter", "deriv": "gauge"}[call], expression


def test_exactly_the_existing_paths_are_listed() -> None:
    board = StatusBoard("g", LocalMembers([]), stall_after=1.0, why_stopping=lambda: "")
    routes = {route.path for route in make_routes(board, AllowedHosts()).routes}  # type: ignore[attr-defined]
    served = {path for path in routes if not path.endswith((".js", ".css"))}
    assert set(re.findall(r"^\| `(/[\w.]*)` \|", PAGE, re.MULTILINE)) == served


def test_all_states_are_listed_in_order() -> None:
    table = PAGE.partition("| state | meaning |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE) == [
        activity.name.lower().replace("_", " ") for activity in Activity
    ]


def test_named_settings_exist() -> None:
    settings = tomllib.loads(blocks(PAGE, "toml")[0])["service"]
    assert settings.keys() <= SERVICE_KEYS.keys()
    assert settings["stall_after"] == ServiceSection().stall_after


def test_host_names_are_allowed_by_the_example() -> None:
    [settings] = tomllib.loads(blocks(PAGE, "toml")[2]).values()
    [hosts] = [settings.pop("http_hosts")]
    assert settings == {}
    assert SERVICE_KEYS["http_hosts"]
    names = AllowedHosts(named=hosts)
    assert [names.allows(host) for host in ("orders.example.com", "a.prod.svc.cluster.local", "example.com")] == [
        True,
        True,
        False,
    ]


def test_prometheus_example_scrapes_the_metrics_path() -> None:
    [job] = yaml.safe_load(blocks(PAGE, "yaml")[0])["scrape_configs"]
    assert job.keys() <= {"job_name", "scrape_interval", "static_configs"}  # other keys may change the path
    address = tomllib.loads(blocks(PAGE, "toml")[0])["service"]["http"]
    assert job["static_configs"] == [{"targets": [address]}]


def test_tracing_example_enables_spans() -> None:
    [text] = blocks(PAGE, "python")
    names: dict[str, Any] = {}
    exec(compile(text, "status-page.md", "exec"), names)
    assert isinstance(names["group"], ConsumerGroup)
    assert tomllib.loads(blocks(PAGE, "toml")[1])["service"] == {"otel": True}
    assert SERVICE_KEYS["otel"]


def test_named_objects_exist() -> None:
    assert all((context_of, export_metrics, GroupCollector.of))
    assert (MOST_LINKS, INTERVAL, EXPORT_TIMEOUT) == (128, 15, 3)
