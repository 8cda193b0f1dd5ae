from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from sarameya.config import Config
from sarameya.service.app.app_file import App, HandlerSection, ServiceSection
from sarameya.service.cli.run_command import add_arguments
from sarameya.service.process.app_runner import app_of_member, worker_command


def app(workers: int, instance_id: str | None) -> App:
    return App(
        bootstrap_servers=("localhost:9092",),
        group="g",
        topics=("orders",),
        handler=HandlerSection("print"),
        config=Config(group_instance_id=instance_id),
        service=ServiceSection(workers=workers),
    )


@pytest.mark.parametrize(
    ("workers", "instance_id", "ids"),
    [
        (2, "orders", ["orders-1", "orders-2"]),
        (1, "orders", ["orders"]),
        (2, None, [None, None]),
    ],
)
def test_static_members_of_one_app_have_distinct_ids(
    workers: int, instance_id: str | None, ids: list[str | None]
) -> None:
    members = [app_of_member(app(workers, instance_id), number + 1) for number in range(workers)]
    assert [m.config.group_instance_id for m in members] == ids


def test_worker_gets_the_arguments_of_its_supervisor() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("--log-level", default="info")
    add_arguments(parser)
    arguments = ("app.toml", "--debug", "--workers", "7", "--log-level", "error")
    worker = parser.parse_args(worker_command(arguments, 2, 3)[3:])
    assert (worker.app_file, worker.worker, worker.workers) == (Path("app.toml"), 2, 3)
    assert (worker.debug, worker.log_level) == (True, "error")
