"""Runs an app: its members in this process, or in worker processes."""

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
from sarameya.service.app.app_file import App, AppFileError, listen_address
from sarameya.service.app.cluster_arguments import positive
from sarameya.service.app.handler_factory import build_handler
from sarameya.service.app.layers import Layers
from sarameya.service.monitor.local_members import LocalMembers
from sarameya.service.monitor.otel import open_otel
from sarameya.service.monitor.worker_reports import send_reports
from sarameya.service.output.error_report import ExitCode
from sarameya.service.output.log_format import add_log_format_argument, configure_logging
from sarameya.service.process import signals
from sarameya.service.process.interruptible_start import enter_with_retries
from sarameya.service.process.member_runner import MemberSpec, run_members
from sarameya.service.process.problem_log import watch_problems
from sarameya.service.process.restarts import Restarts
from sarameya.service.process.shared_options import open_shared, to_environment, with_shared
from sarameya.service.process.shutdown_check import ShutdownCheck
from sarameya.service.process.signals import Stop
from sarameya.service.process.status_pages import open_pages
from sarameya.service.process.supervisor import Supervisor
from sarameya.service.process.systemd import Notifier
from sarameya.service.process.watchdog import Watchdog

if TYPE_CHECKING:
    from sarameya.telemetry.otel_tracing import Tracing

Watch = Callable[[App, Stop], Awaitable[None]]
"""A task beside an app's members that runs until it is cancelled, but not in workers. It may request the end."""

WatchInput = Callable[[Stop], Awaitable[None]]
"""A task beside an app's members that reads standard input, and requests the end."""


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for running an app, and for the format of its log. `run_app` reads them."""
    parser.add_argument(
        "--workers", type=positive, metavar="N", help="run N members, a process each (or see --in-process)"
    )
    parser.add_argument("--in-process", action="store_true", help="run the members as tasks of this one process")
    parser.add_argument(
        "--until-eof", action="store_true", help="also stop, in order, when standard input ends (for a parent program)"
    )
    parser.add_argument(
        "--http",
        type=listen_argument,
        metavar="HOST:PORT",
        help="serve the status page, metrics and health at this address",
    )
    add_log_format_argument(parser)
    # Set by the supervisor for a worker: its number, and the file descriptor for its status reports.
    parser.add_argument("--worker", type=positive, help=argparse.SUPPRESS)
    parser.add_argument("--report-fd", type=int, help=argparse.SUPPRESS)


def listen_argument(text: str) -> str:
    """Check the HOST:PORT of an argument, and return it unchanged.

    Raises:
        argparse.ArgumentTypeError: The text is not an address to listen at.
    """
    try:
        return listen_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def run_app(app: App, layers: Layers, args: argparse.Namespace, watch: Watch | None = None) -> int:
    """Run an app until a signal, or until another part requests the end.

    Args:
        app: The app.
        layers: The origins of its values, for mistakes in the handler's options.
        args: The arguments of `add_run_arguments`.
        watch: A task to run beside the members. It may request the end.

    Returns:
        The exit code. With a process for each member: the worst of the workers' codes.

    Raises:
        AppFileError: The handler or its options are wrong. Raised before anything starts.
        ExceptionGroup: Members failed and are not restarted, or the shutdown was not orderly.
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
    new_handler = partial(make_handler, app, layers)
    new_handler()  # Build a handler now, so that an invalid option is reported once, before any worker starts.
    if args.worker:
        app = attrs.evolve(app, service=attrs.evolve(app.service, http=None))  # the supervisor serves
        return signals.run_program(
            partial(
                _serve,
                {args.worker: app_of_member(app, args.worker)},
                new_handler,
                signals.stop_with_supervisor,
                None,
                args.report_fd,
                notifier,
            )
        )
    watch_input = signals.stop_at_end_of_input if args.until_eof else None
    numbers = range(1, app.service.workers + 1)
    if app.service.workers == 1 or app.service.in_process:
        apps = {number: app_of_member(app, number) for number in numbers}
        return signals.run_program(partial(_serve, apps, new_handler, watch_input, watch, None, notifier))
    commands = [worker_command(args.argv, number, app.service.workers) for number in numbers]
    supervisor = Supervisor(commands, app.service)
    run = partial(_supervise, app, supervisor, watch_input, watch, notifier)
    return signals.run_program(run, before_exit=supervisor.kill_nowait)


def app_of_member(app: App, number: int) -> App:
    """Return the app of one member of several.

    A static member gets an instance id of its own, since members with the same id would fence each other.
    """
    instance_id = app.config.group_instance_id
    if instance_id is None or app.service.workers == 1:
        return app
    return attrs.evolve(app, config=attrs.evolve(app.config, group_instance_id=f"{instance_id}-{number}"))


def worker_command(argv: tuple[str, ...], number: int, workers: int) -> list[str]:
    """Return the supervisor's own command line with the number of the worker."""
    return [sys.executable, "-m", "sarameya.service", *argv, "--worker", str(number), "--workers", str(workers)]


def make_handler(app: App, layers: Layers) -> ConsumerGroupHandler:
    """Return a new handler of the app.

    Raises:
        AppFileError: The handler or its options are wrong.
    """
    try:
        return build_handler(app.handler.name, app.handler.options)
    except ConfigError as error:
        key = f"handler.options.{error.option}"
        raise AppFileError(layers.path, [layers.with_origin(key, f"handler.options.{error}")]) from None
    except HandlerError as error:
        raise AppFileError(layers.path, [str(error)]) from error


async def _serve(
    apps: Mapping[int, App],
    make_handler: Callable[[], ConsumerGroupHandler],
    watch_input: WatchInput | None,
    watch: Watch | None,
    report_fd: int | None,
    notifier: Notifier,
    stop: Stop,
) -> ExitCode:
    """Run members in this process. `apps` has the app of each member by its number."""
    # If the event loop is blocked for `rebalance_timeout`, the coordinator has removed the members in any case.
    watchdog = Watchdog(max(app.config.rebalance_timeout for app in apps.values()))
    shutdown_check = ShutdownCheck(stop, max(app.config.close_timeout for app in apps.values()))
    local_members = LocalMembers(apps)
    # Only declared here, for `open_group`: `open_otel` below sets it before the first member starts.
    make_tracing: Callable[[], list[Tracing]] = list

    def open_group(number: int, app: App) -> ConsumerGroup:
        recorder = local_members.recorder(number)
        observers: list[Observer] = [log_event, watchdog.observe, shutdown_check.observe, recorder]
        tracing = make_tracing()
        group = ConsumerGroup(
            app.bootstrap_servers, app.group, app.config, observers=[*observers, *tracing], interceptors=tracing
        )
        local_members.set_group(number, group)
        return group

    members = [
        MemberSpec(
            app,
            make_handler,
            partial(open_group, number),
            partial(local_members.record_failure, number),
            partial(local_members.record_restart, number),
        )
        for number, app in apps.items()
    ]
    first = next(iter(apps.values()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watchdog.run)
        if report_fd is not None:
            nursery.start_soon(send_reports, local_members, report_fd)
        else:  # the supervisor reports a worker's problems, and notices a worker that stops reporting
            nursery.start_soon(watch_problems, local_members, stop, first.service.stall_after)
        nursery.start_soon(notifier.run, stop, local_members)
        _start_others(nursery, first, watch_input, watch, stop)
        async with open_otel(first, local_members.snapshots) as make_tracing, open_pages(first, local_members, stop):
            await run_members(members, stop)
        nursery.cancel_scope.cancel()
    shutdown_check.check()
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
        nursery.start_soon(notifier.run, stop, supervisor.reports)
        nursery.start_soon(watch_problems, supervisor.reports, stop, app.service.stall_after)
        _start_others(nursery, app, watch_input, watch, stop)
        shared = enter_with_retries(
            "shared Spark",
            partial(open_shared, app.handler),
            stop,
            Restarts(app.service),
            supervisor.reports.record_shared_failure,
        )
        # Open the pages first, so that they can show why the workers have not started.
        async with open_pages(app, supervisor.reports, stop), shared as options:
            code = await supervisor.run(stop, to_environment(options or {}))
        nursery.cancel_scope.cancel()
    return code


def _start_others(
    nursery: trio.Nursery, app: App, watch_input: WatchInput | None, watch: Watch | None, stop: Stop
) -> None:
    """Start the tasks that may request the end, beside signals."""
    if watch_input is not None:
        nursery.start_soon(watch_input, stop)
    if watch is not None:
        nursery.start_soon(watch, app, stop)
