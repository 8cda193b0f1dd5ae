"""`sarameya dashboard`: its arguments, and the server of its page."""

from __future__ import annotations

import argparse
from functools import partial
from urllib.parse import urlsplit

from sarameya.errors import ConfigError
from sarameya.extras import install_command
from sarameya.service.app.app_file import host_name
from sarameya.service.app.cluster_arguments import Cluster, add_cluster_arguments, cluster
from sarameya.service.output.error_report import ExitCode
from sarameya.service.output.help_epilog import epilog
from sarameya.service.output.log_format import add_log_format_argument, configure_logging
from sarameya.service.process import signals
from sarameya.service.process.app_runner import listen_argument
from sarameya.service.process.signals import Stop

_DEFAULT = "127.0.0.1:8090"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.add_argument("--group", metavar="NAME", help="the group; else the app file's")
    parser.add_argument(
        "--member",
        dest="members",
        type=_url,
        action="append",
        default=[],
        metavar="URL",
        help="the URL of a member's service ([service] http), as http://10.0.0.7:8080; may be given again",
    )
    parser.add_argument(
        "--member-port",
        type=_port,
        metavar="PORT",
        help="request every member's address, as Kafka reports it, at this port",
    )
    parser.add_argument(
        "--http",
        type=listen_argument,
        default=_DEFAULT,
        metavar="HOST:PORT",
        help=f"serve the page there ({_DEFAULT})",
    )
    parser.add_argument(
        "--http-host",
        dest="http_hosts",
        type=_host_name,
        action="append",
        default=[],
        metavar="NAME",
        help="a host name that requests may use, as in [service] http_hosts; may be given again",
    )
    parser.epilog = epilog(
        "sarameya dashboard --group orders-landing --bootstrap localhost:9092 --member http://localhost:8080",
        "sarameya dashboard --app landing.toml --member-port 8080 --http 127.0.0.1:8090",
    )
    add_cluster_arguments(parser)
    add_log_format_argument(parser, "auto")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal.

    Raises:
        ListenError: The address cannot be listened at now.
        ConfigError: An option is wrong.
        AppFileError: The cluster's arguments have mistakes.
        SarameyaError: A permanent error of Kafka, such as a failed authentication.
    """
    configure_logging("debug" if args.debug else args.log_level, log_format=args.log_format)
    kafka = cluster(args)
    group: str | None = args.group or kafka.group
    if not group:
        args.usage_error("no group is named: give --group NAME, or name it by --app, --properties or SARAMEYA_GROUP")
    return signals.run_program(partial(_serve, args, str(group), kafka))


async def _serve(args: argparse.Namespace, group: str, kafka: Cluster, stop: Stop) -> ExitCode:
    try:
        from sarameya.service.dashboard.endpoints import MemberEndpoints
        from sarameya.service.dashboard.group_board import GroupBoard
        from sarameya.service.web.server import serve_pages
    except ImportError as error:
        remedy = f"needs more packages ({error}): {install_command('service')}"
        raise ConfigError("--http", args.http, remedy) from None
    board = GroupBoard(group, kafka, MemberEndpoints(tuple(args.members), args.member_port))
    async with serve_pages(board, args.http, args.http_hosts, option="--http") as url:
        print(f"sarameya dashboard: {url}", flush=True)
        await stop.wait()
    return ExitCode.OK


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port, or brackets
        is_url = False
    if is_url and parts.username is not None:
        raise argparse.ArgumentTypeError(
            "must have no user or password, since every user of this machine can list its processes"
        )
    if not is_url or parts.query or parts.fragment or not (text.isascii() and text.isprintable()) or " " in text:
        raise argparse.ArgumentTypeError(f"{text!r} must be a URL, for example http://localhost:8080")
    return text


def _host_name(text: str) -> str:
    try:
        return host_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} must be a port from 1 to 65535")
    return int(text)
