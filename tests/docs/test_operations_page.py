"""Log lines, tables and settings in docs/operations.md match the log, the service and the examples."""

from __future__ import annotations

import ast
import inspect
import json
import logging
import re
from datetime import datetime

import attrs
import pytest

import sarameya
from sarameya import observe
from sarameya.model import Generation, TopicPartition
from sarameya.observe.events import Event
from sarameya.observe.log import _LEVELS
from sarameya.service.app.app_file import SERVICE_KEYS
from sarameya.service.monitor import health
from sarameya.service.output import error_report
from sarameya.service.output.log_format import RESERVED, LogFormat
from sarameya.service.process import problem_log, shutdown_check, signals
from sarameya.service.web import connections
from sarameya.telemetry import export_log
from sarameya_handlers.landing import chain_start as starting
from sarameya_handlers.spark import error_sources
from sarameya_handlers.spark.engines import keeper
from sarameya_handlers.spark.engines.jvm import launch, start_failures
from sarameya_handlers.spark.tables import packages
from tests.docs.pages import DOCS, blocks, page
from tests.examples.test_deploy import MARGIN, container, image, pod, unit

PAGE = page("operations")
JSON_LINES = [json.loads(line) for line in "".join(blocks(PAGE, "json")).splitlines()]


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_column(title: str) -> list[str]:
    return [row.split("|")[1].strip() for row in section(title).splitlines() if row.startswith("| ")][1:]


def event_of(words: str) -> type[Event]:
    """Return the event that is logged with these words."""
    return getattr(observe, "".join(word.capitalize() for word in words.split()))


def test_text_lines_equal_those_of_the_log() -> None:
    [text] = blocks(PAGE, "text")
    for line in text.splitlines():
        assert datetime.fromisoformat(line[:23])
        assert line[24:32].strip() in logging.getLevelNamesMapping()
        words, _, fields = line[32:].partition(": ")
        if fields != "stopping":
            documented = re.findall(r"(\w+)=", fields)
            assert documented == [field.name for field in attrs.fields(event_of(words))]


def test_json_lines_have_the_fields_of_their_events() -> None:
    assert len(JSON_LINES) == 2
    for line in JSON_LINES:
        assert datetime.fromisoformat(line["time"]).tzinfo
        event = line.get("event")
        fields = {field.name for field in attrs.fields(getattr(observe, event))} if event else set()
        assert line.keys() - RESERVED == fields


def test_json_message_equals_its_event() -> None:
    [line] = [line for line in JSON_LINES if "event" in line]
    assignment = {topic: tuple(numbers) for topic, numbers in line["assignment"].items()}
    event = observe.SessionStarted(line["group"], Generation(line["generation"], "m", "range"), assignment)
    assert line["message"] == str(event)
    assert str(TopicPartition("orders", 0)) in blocks(PAGE, "text")[0]


def test_every_warning_has_a_row_with_advice() -> None:
    warned = {kind.__name__ for kind, level in _LEVELS.items() if level >= logging.WARNING}
    documented = {name for row in first_column("What to do when") for name in re.findall(r"`([^`]+)`", row)}
    assert documented >= warned
    others = documented - warned
    spark = (start_failures, launch, keeper, packages, error_sources)
    modules = (connections, signals, shutdown_check, problem_log, health, export_log, starting, *spark)
    # The source is parsed, since a text may be split over several literals.
    nodes = [node for module in modules for node in ast.walk(ast.parse(inspect.getsource(module)))]
    words = "\n".join(str(node.value) for node in nodes if isinstance(node, ast.Constant))
    assert [one for one in others if not hasattr(sarameya, one) and one not in words] == []


def test_exit_codes_equal_the_service() -> None:
    assert error_report.__doc__ is not None
    codes = {row.split("|")[1].strip() for row in error_report.__doc__.splitlines() if row.startswith("| ")}
    documented = {code for row in first_column("Exit codes") for code in row.split(", ")}
    assert {code for code in codes if code.isdecimal()} <= documented
    assert {str(error_report.ExitCode.on_signal(number)) for number in signals.SIGNALS} <= documented


@pytest.mark.parametrize(
    "name", ["close_timeout", "claim_grace", "session_timeout", "group_instance_id", "fetch_buffer_bytes"]
)
def test_named_options_exist(name: str) -> None:
    assert f"`{name}`" in section("Settings that matter")
    assert hasattr(sarameya.Config(), name)


def test_named_service_settings_exist() -> None:
    assert {"log_format", "http", "stall_after", "on_failure", "restart_backoff"} <= SERVICE_KEYS.keys()
    [formats] = re.findall(r"`--log-format` \((.*?)\)", PAGE)
    assert tuple(re.findall(r"`(\w+)`", formats)) == LogFormat.__args__


def test_statements_about_examples_are_true() -> None:
    assert f"`rebalance_timeout` + {MARGIN} s" in section("Settings that matter")
    for setting in re.findall(r"`(\w+=\w+)`", section("systemd")):
        name, _, value = setting.partition("=")
        assert value in unit()[name] or name in {"READY", "STOPPING", "WATCHDOG"} or value in unit()[name][0].split()
    assert {"terminationGracePeriodSeconds"} <= pod().keys()
    assert container()["securityContext"]["readOnlyRootFilesystem"]
    assert image()["CMD"][0].startswith("[")


def test_links_have_a_target() -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]*)?\)", PAGE):
        assert (DOCS / target).exists(), target
    anchors = {
        re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-")
        for title in re.findall(r"^## (.*)$", PAGE, re.M)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= anchors
