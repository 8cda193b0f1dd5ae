"""`sarameya broker`: runs the embedded broker on a TCP port, for any client, until a signal."""

from __future__ import annotations

import argparse
from contextlib import AsyncExitStack
from functools import partial

from sarameya.embedded import EmbeddedCluster
from sarameya.embedded.topics import MAX_PARTITIONS
from sarameya.model import TOPIC_NAME
from sarameya.service.output.error_report import ExitCode
from sarameya.service.output.help_epilog import epilog
from sarameya.service.output.log_format import add_log_format_argument, configure_logging
from sarameya.service.process import signals
from sarameya.service.process.signals import Stop
from sarameya.service.web.listen_error import listen_error


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.add_argument(
        "--host", default="127.0.0.1", help="the address to listen on and to advertise to clients (127.0.0.1)"
    )
    parser.add_argument("--port", type=_port, default=9092, help="the port to listen on (9092); 0 takes a free one")
    parser.add_argument(
        "--topic",
        dest="topics",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME:PARTITIONS",
        help="a topic to start with; may be given again",
    )
    parser.add_argument(
        "--auto-create-topics", action="store_true", help="create a topic when a client first asks for it"
    )
    add_log_format_argument(parser, "auto")
    parser.epilog = epilog("sarameya broker --topic orders:4", "sarameya broker --port 0 --auto-create-topics")
    parser.set_defaults(run=run)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} must be a port from 0 to 65535")
    return int(text)


def _topic(text: str) -> tuple[str, int]:
    name, _, partitions = text.rpartition(":")
    if not TOPIC_NAME.fullmatch(name) or not partitions.isdecimal() or not 1 <= int(partitions) <= MAX_PARTITIONS:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be NAME:PARTITIONS, for example orders:4, with 1 to {MAX_PARTITIONS} partitions"
        )
    return name, int(partitions)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal.

    Raises:
        ListenError: The address cannot be listened at now.
        ConfigError: The address can never be listened at.
    """
    configure_logging("debug" if args.debug else args.log_level, log_format=args.log_format)
    return signals.run_program(partial(_serve, args))


async def _serve(args: argparse.Namespace, stop: Stop) -> ExitCode:
    cluster = EmbeddedCluster(
        topics=dict(args.topics), host=args.host, port=args.port, auto_create_topics=args.auto_create_topics
    )
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(cluster)
        except (OSError, UnicodeError) as error:
            raise listen_error("--host, --port", f"{args.host}:{args.port}", error) from error
        print(f"sarameya broker: ready at {','.join(cluster.bootstrap_servers)}", flush=True)
        await stop.wait()
    return ExitCode.OK
