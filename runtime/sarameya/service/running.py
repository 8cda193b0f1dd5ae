"""Runs an app: its members in this process, or as workers of it. What the app is, others have found out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from sarameya.errors import ConfigError, HandlerError
from sarameya.group.consumer_group import ConsumerGroup
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.observe import Observer, log_event
from sarameya.service import signals
from sarameya.service.app_file import App, AppFileError, listened
from sarameya.service.failures import ExitCode
from sarameya.service.handlers import build_handler
from sarameya.service.layers import Layers
from sarameya.service.log_lines import add_log_format_argument, configure_logging
from sarameya.service.otel import open_otel
from sarameya.service.restarts import Restarts
from sarameya.service.runner import Member, run_members
from sarameya.service.shared import open_shared, to_environment, with_shared
from sarameya.service.signals import Stop
from sarameya.service.starting import entered_at_last
from sarameya.service.systemd import Notifier
from sarameya.service.troubles import watch_troubles
from sarameya.service.unfinished import Unfinished
from sarameya.service.watchdog import Watchdog
from sarameya.service.web.opening import open_pages
from sarameya.service.web.roster import Roster
from sarameya.service.web.telling import tell
from sarameya.service.workers import Supervisor

if TYPE_CHECKING:
    from sarameya.telemetry.otel_tracing import Tracing

Watch = Callable[[App, Stop], Awaitable[None]]
"""Runs beside an app's members, in the first process only, until it is cancelled; it may ask for the end."""


WatchInput = Callable[[Stop], Awaitable[None]]
"""Runs beside an app's members, and asks for the end by what comes from standard input."""


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """How an app is run, and its log's format; `run_app` reads them."""
    parser.add_argument(
        "--workers", type=_count, metavar="N", help="run N members, a process each (or see --in-process)"
    )
    parser.add_argument("--in-process", action="store_true", help="run the members as tasks of this one process")
    parser.add_argument(
        "--until-eof", action="store_true", help="also stop, in order, when standard input ends (for a parent program)"
    )
    parser.add_argument(
        "--http", type=listened_argument, metavar="HOST:PORT", help="serve the status page, metrics and health there"
    )
    add_log_format_argument(parser)
    # Of a supervisor's worker: its number, and the pipe to which it tells of itself.
    parser.add_argument("--worker", type=_count, help=argparse.SUPPRESS)
    parser.add_argument("--tell", type=int, help=argparse.SUPPRESS)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def listened_argument(text: str) -> str:
    """HOST:PORT to listen at, of an argument."""
    try:
        return listened(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def run_app(app: App, layers: Layers, args: argparse.Namespace, watch: Watch | None = None) -> int:
    """Run until a signal, or until `watch` asks for the end. Raises whatever made the members fail.

    `layers` say where a mistake in the handler's options was made.
    """
    configure_logging(
        "debug" if args.debug else args.log_level,
        log_format=args.log_format or app.service.log_format,
        worker=args.worker,
    )
    notifier = Notifier()
    if args.workers:
        app = attrs.evolve(app, service=attrs.evolve(app.service, workers=args.workers))
    if args.http:
        app = attrs.evolve(app, service=attrs.evolve(app.service, http=args.http))
    if args.in_process:
        app = attrs.evolve(app, service=attrs.evolve(app.service, in_process=True))
    if args.worker:
        app = with_shared(app)
    make = partial(make_handler, app, layers)
    make()  # a mistake in its options is told once, before anything is started
    if args.worker:
        app = attrs.evolve(app, service=attrs.evolve(app.service, http=None))  # the supervisor serves
        return signals.run(
            partial(
                _serve,
                {args.worker: member(app, args.worker)},
                make,
                signals.stop_with_supervisor,
                None,
                args.tell,
                notifier,
            )
        )
    watch_input = signals.stop_at_end_of_input if args.until_eof else None
    numbers = range(1, app.service.workers + 1)
    if app.service.workers == 1 or app.service.in_process:
        apps = {number: member(app, number) for number in numbers}
        return signals.run(partial(_serve, apps, make, watch_input, watch, None, notifier))
    commands = [worker_command(args.argv, number, app.service.workers) for number in numbers]
    supervisor = Supervisor(commands, app.service)
    run = partial(_supervise, app, supervisor, watch_input, watch, notifier)
    return signals.run(run, before_exit=supervisor.kill_nowait)


def member(app: App, number: int) -> App:
    """The app of one member of several: a static member's id is its own, or the members would fence each other."""
    instance_id = app.config.group_instance_id
    if instance_id is None or app.service.workers == 1:
        return app
    return attrs.evolve(app, config=attrs.evolve(app.config, group_instance_id=f"{instance_id}-{number}"))


def worker_command(argv: tuple[str, ...], number: int, workers: int) -> list[str]:
    """The supervisor's own command line once more, and which of its workers this one is."""
    return [sys.executable, "-m", "sarameya.service", *argv, "--worker", str(number), "--workers", str(workers)]


def make_handler(app: App, layers: Layers) -> ConsumerGroupHandler:
    """The app's handler. Raises AppFileError."""
    try:
        return build_handler(app.handler.name, app.handler.options)
    except ConfigError as error:
        key = f"handler.options.{error.option}"
        raise AppFileError(layers.path, [layers.told(key, f"handler.options.{error}")]) from None
    except HandlerError as error:
        raise AppFileError(layers.path, [str(error)]) from error


async def _serve(
    apps: Mapping[int, App],
    make_handler: Callable[[], ConsumerGroupHandler],
    watch_input: WatchInput | None,
    watch: Watch | None,
    tell_to: int | None,
    notifier: Notifier,
    stop: Stop,
) -> ExitCode:
    """Members by their numbers."""
    # After this long without a turn of the loop the group has given the members up in any case.
    watchdog = Watchdog(max(app.config.rebalance_timeout for app in apps.values()))
    unfinished = Unfinished(stop, max(app.config.close_timeout for app in apps.values()))
    roster = Roster(apps)
    make_tracing: Callable[[], list[Tracing]] = list

    def open_group(number: int, app: App) -> ConsumerGroup:
        observers: list[Observer] = [log_event, watchdog.observe, unfinished.observe, roster.recent(number)]
        tracing = make_tracing()
        group = ConsumerGroup(
            app.bootstrap_servers, app.group, app.config, observers=[*observers, *tracing], interceptors=tracing
        )
        roster.begins(number, group)
        return group

    members = [
        Member(
            app,
            make_handler,
            partial(open_group, number),
            partial(roster.failed, number),
            partial(roster.restarts, number),
        )
        for number, app in apps.items()
    ]
    first = next(iter(apps.values()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watchdog.run)
        if tell_to is not None:
            nursery.start_soon(tell, roster, tell_to)
        else:  # of a worker its supervisor tells, who also hears when it falls silent
            nursery.start_soon(watch_troubles, roster, stop, first.service.stall_after)
        nursery.start_soon(notifier.run, stop, roster)
        _start_others(nursery, first, watch_input, watch, stop)
        async with open_otel(first, roster.snapshots) as make_tracing, open_pages(first, roster, stop):
            await run_members(members, stop)
        nursery.cancel_scope.cancel()
    unfinished.check()
    return ExitCode.OK


async def _supervise(
    app: App,
    supervisor: Supervisor,
    watch_input: WatchInput | None,
    watch: Watch | None,
    notifier: Notifier,
    stop: Stop,
) -> ExitCode:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.run, stop, supervisor.ear)
        nursery.start_soon(watch_troubles, supervisor.ear, stop, app.service.stall_after)
        _start_others(nursery, app, watch_input, watch, stop)
        shared = entered_at_last(
            "shared Spark", partial(open_shared, app.handler), stop, Restarts(app.service), supervisor.ear.none_began
        )
        # The pages first: they say why workers are waited for.
        async with open_pages(app, supervisor.ear, stop), shared as options:
            code = await supervisor.run(stop, to_environment(options or {}))
        nursery.cancel_scope.cancel()
    return code


def _start_others(
    nursery: trio.Nursery, app: App, watch_input: WatchInput | None, watch: Watch | None, stop: Stop
) -> None:
    """Who asks for the end, beside signals."""
    if watch_input is not None:
        nursery.start_soon(watch_input, stop)
    if watch is not None:
        nursery.start_soon(watch, app, stop)
