"""The demo: produce, land and read back the flights; exits 0 only if each has landed once.

The broker and the producer run in this process. The group's two members are worker processes of `sarameya run`, which
land through Spark. One of them is killed in the middle, and the other takes over. Then another process reads the table
through Spark.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import trio

from examples.flights.data import PARTITIONS, ROWS, Flight, flights
from examples.flights.errors import DemoError
from examples.flights.job import GROUP, TOPIC, Job
from examples.flights.service import Service, running
from sarameya.embedded import EmbeddedCluster
from sarameya.service import Stop, display, run_program

WORKERS = 2

APP = """\
# The demo's app file, written by `python -m examples.flights`; examples/landing.toml explains the keys.
bootstrap_servers = {bootstrap_servers}
group = "{group}"
topics = ["{topic}"]

[config]
offset_initial = "oldest"
session_timeout = {session_timeout}
heartbeat_interval = 1.0

[handler]
name = "spark"

[handler.options]
path = {landing}
transform = "examples.flights.transform:flights"
max_rows = 50_000
max_age = 3.0

[handler.options.spark]
master = "local[1]" # the two members share two cores
# A short job: a quick start of the JVM is worth more than its peak speed.
conf = {{ "spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" }}

[service]
on_failure = "{on_failure}"
restart_backoff = 60.0
"""


REPORTED = {
    "rows landed": "landed",
    "rows expected": "expected",
    "duplicates": "duplicates",
    "missing": "missing",
}


def main() -> int:
    args = _arguments()
    try:
        return run_program(partial(until_stopped, args))
    except KeyboardInterrupt:
        return 130
    except (DemoError, OSError, ExceptionGroup) as error:
        expected = _expected(error)
        if expected is None:
            raise
        print(f"flights: {expected}", file=sys.stderr)
        return 1


def _expected(error: Exception) -> Exception | None:
    """Return the first error, at any depth of exception groups, that the demo reports in one line; None without one."""
    if isinstance(error, ExceptionGroup):
        return next(filter(None, map(_expected, error.exceptions)), None)
    return error if isinstance(error, DemoError | OSError) else None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    parser.add_argument("--rows", type=_rows, default=ROWS, help=f"number of flights ({ROWS})")
    parser.add_argument("--landing", type=Path, default=Path("landing"), help="directory for flights/ (landing)")
    parser.add_argument(
        "--kill",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="kill one member with SIGKILL in the middle of the job",
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser.parse_args()


def _rows(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= ROWS:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 to {ROWS}")
    return int(text)


async def until_stopped(args: argparse.Namespace, stop: Stop) -> int:
    """Run the demo. Return its exit code, or 130 if a signal ended it."""

    async def cancel_on_signal(scope: trio.CancelScope) -> None:
        await stop.wait()
        if not args.quiet:
            print("\nflights: stopping (a second signal ends it at once)", file=sys.stderr)
        scope.cancel()

    code = 130
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_on_signal, nursery.cancel_scope)
        code = await demo(args)
        nursery.cancel_scope.cancel()
    return code


async def demo(args: argparse.Namespace) -> int:
    landing = args.landing / "flights"
    args.landing.mkdir(parents=True, exist_ok=True)
    with _locked((args.landing / "flights.toml").open("a+")) as app_file:
        shutil.rmtree(landing, ignore_errors=True)
        ends = await produce_and_land(args, landing, app_file)
        report = await read_back(landing, ends)
    if not args.quiet:
        print(_table(report))
    return 1 if report["missing"] or report["unknown"] or report["duplicates"] else 0


@contextmanager
def _locked(app_file: TextIO) -> Iterator[TextIO]:
    """Lock the app file, so that a second demo does not remove this demo's table.

    Raises:
        DemoError: Another demo holds the lock.
    """
    with app_file:
        try:
            fcntl.flock(app_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"another demo uses {app_file.name}; choose another --landing") from None
        yield app_file


async def produce_and_land(args: argparse.Namespace, landing: Path, app_file: TextIO) -> list[int]:
    """Produce and land the flights. Return the log end of each partition."""
    async with EmbeddedCluster(topics={TOPIC: PARTITIONS}) as cluster:
        app_file.truncate(0)
        app_file.write(_app(cluster, landing, killing=args.kill))
        app_file.flush()
        with display("landed", args.rows, quiet=args.quiet) as progress:
            job = Job(cluster, args.rows, progress)
            async with running(Path(app_file.name), WORKERS) as service:
                await land(job, service, islice(flights(), args.rows), killing=args.kill)
                await service.stop()
        return [cluster.log(TOPIC, partition).high_watermark for partition in range(PARTITIONS)]


async def land(job: Job, service: Service, source: Iterator[Flight], *, killing: bool) -> None:
    """Produce the flights, and wait until the group has committed all of them."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.fail_if_ended)
        nursery.start_soon(job.fail_if_stalled)
        await job.wait_for_members(WORKERS)
        nursery.start_soon(job.show)
        if killing:
            await job.produce(islice(source, job.total // 2))
            await job.wait_for_first_rows()
        nursery.start_soon(job.produce, source)
        if killing:
            await job.kill_one_member(service)
            await job.wait_for_takeover()
        await job.wait_for_all_rows()
        nursery.cancel_scope.cancel()


async def read_back(landing: Path, ends: list[int]) -> dict[str, Any]:
    """Compare the table with the log, in a process of its own. Return the report of `read_back.py`.

    Raises:
        DemoError: The process failed.
    """
    command = [sys.executable, "-m", "examples.flights.read_back", str(landing), *map(str, ends)]
    done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False, process_group=0)
    if done.returncode != 0:
        raise DemoError(f"reading back failed:\n{done.stderr.decode(errors='replace')}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _app(cluster: EmbeddedCluster, landing: Path, *, killing: bool) -> str:
    return APP.format(
        bootstrap_servers=json.dumps(cluster.bootstrap_servers),
        group=GROUP,
        topic=TOPIC,
        landing=json.dumps(str(landing)),
        # After the kill, the other member takes over soon, and before the killed one is back.
        session_timeout=6.0 if killing else 10.0,
        on_failure="restart" if killing else "stop",
    )


def _table(report: dict[str, Any]) -> str:
    lines = [f"{name:<14}{report[key]:>10,}" for name, key in REPORTED.items()]
    lines += ["", f"{'carrier':<10}{'flights':>10}{'mean arrival delay (min)':>28}"]
    lines += [f"{c['carrier']:<10}{c['flights']:>10,}{c['delay']:>28.1f}" for c in report["carriers"]]
    return "\n".join(lines)
