"""`sarameya run app.toml`: a group's members as a service, in this process or as workers of it."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

import attrs
import trio

from sarameya.errors import ConfigError, HandlerError
from sarameya.group.consumer_group import ConsumerGroup
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.observe import log_event
from sarameya.service import signals
from sarameya.service.app_file import App, AppFileError, load_app
from sarameya.service.failures import ExitCode
from sarameya.service.handlers import build_handler
from sarameya.service.log_lines import configure_logging
from sarameya.service.runner import run_members
from sarameya.service.shared import open_shared, to_environment, with_shared
from sarameya.service.signals import Stop
from sarameya.service.unfinished import Unfinished
from sarameya.service.watchdog import Watchdog
from sarameya.service.workers import Supervisor

SUMMARY = "run members of a consumer group with the handler that an app file names"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app_file", type=Path, metavar="APP.toml", help="the group, its topics and the handler")
    parser.add_argument(
        "--workers", type=_count, metavar="N", help="run N members, a process each (or see --in-process)"
    )
    parser.add_argument("--in-process", action="store_true", help="run the members as tasks of this one process")
    parser.add_argument(
        "--until-eof", action="store_true", help="also stop, in order, when standard input ends (for a parent program)"
    )
    parser.add_argument("--worker", type=_count, help=argparse.SUPPRESS)  # the number that the supervisor gave us
    parser.set_defaults(run=run)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Run until a signal. Raises whatever made the members fail."""
    configure_logging("debug" if args.debug else args.log_level, name=f"worker {args.worker}" if args.worker else "")
    app = load_app(args.app_file)
    if args.workers:
        app = attrs.evolve(app, service=attrs.evolve(app.service, workers=args.workers))
    if args.in_process:
        app = attrs.evolve(app, service=attrs.evolve(app.service, in_process=True))
    # An installed script, unlike `python -m`, does not look for modules where it was called.
    sys.path.insert(0, os.getcwd())
    if args.worker:
        app = with_shared(app)
    make_handler = partial(_make_handler, args.app_file, app)
    make_handler()  # a mistake in its options is told once, before anything is started
    if args.worker:
        return signals.run(partial(_serve, [member(app, args.worker)], make_handler, True))
    if app.service.workers == 1 or app.service.in_process:
        apps = [member(app, number + 1) for number in range(app.service.workers)]
        return signals.run(partial(_serve, apps, make_handler, args.until_eof))
    workers = app.service.workers
    supervisor = Supervisor([worker_command(args, n + 1, workers) for n in range(workers)], app.service)
    return signals.run(partial(_supervise, app, supervisor, args.until_eof), before_exit=supervisor.kill_nowait)


def member(app: App, number: int) -> App:
    """The app of one member of several: a static member's id is its own, or the members would fence each other."""
    instance_id = app.config.group_instance_id
    if instance_id is None or app.service.workers == 1:
        return app
    return attrs.evolve(app, config=attrs.evolve(app.config, group_instance_id=f"{instance_id}-{number}"))


def worker_command(args: argparse.Namespace, number: int, workers: int) -> list[str]:
    command = [sys.executable, "-m", "sarameya.service", "run", str(args.app_file)]
    command += ["--worker", str(number), "--workers", str(workers), "--log-level", args.log_level]
    return command + ["--debug"] * args.debug


def _make_handler(path: Path, app: App) -> ConsumerGroupHandler:
    try:
        return build_handler(app.handler.name, app.handler.options)
    except ConfigError as error:
        raise AppFileError(path, [f"handler.options.{error}"]) from None
    except HandlerError as error:
        raise AppFileError(path, [str(error)]) from error


async def _serve(apps: list[App], make_handler: partial[ConsumerGroupHandler], until_eof: bool, stop: Stop) -> ExitCode:
    # After this long without a turn of the loop the group has given the members up in any case.
    watchdog = Watchdog(max(app.config.rebalance_timeout for app in apps))
    unfinished = Unfinished(stop, max(app.config.close_timeout for app in apps))

    def open_group(app: App) -> ConsumerGroup:
        observers = [log_event, watchdog.observe, unfinished.observe]
        return ConsumerGroup(app.bootstrap_servers, app.group, app.config, observers=observers)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watchdog.run)
        if until_eof:
            nursery.start_soon(signals.stop_at_end_of_input, stop)
        await run_members(apps, make_handler, stop, open_group)
        nursery.cancel_scope.cancel()
    unfinished.check()
    return ExitCode.OK


async def _supervise(app: App, supervisor: Supervisor, until_eof: bool, stop: Stop) -> ExitCode:
    async with trio.open_nursery() as nursery:
        if until_eof:
            nursery.start_soon(signals.stop_at_end_of_input, stop)
        async with open_shared(app.handler) as options:
            code = await supervisor.run(stop, to_environment(options))
        nursery.cancel_scope.cancel()
    return code
