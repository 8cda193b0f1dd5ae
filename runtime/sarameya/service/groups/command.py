"""`sarameya groups ...`: its arguments. `results` does the work of the commands."""

from __future__ import annotations

import argparse
import time
from collections.abc import Awaitable, Callable
from functools import partial

from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.offset_policy import parse_policy, timestamp_of
from sarameya.service.app.cluster_arguments import Cluster, cluster
from sarameya.service.groups import results
from sarameya.service.groups.arguments import (
    add_execute_argument,
    add_shared_arguments,
    duration,
    group_names,
    moment,
    offset,
    subcommand,
    topic_choice,
)
from sarameya.service.groups.reset import ResetKind, ResetTarget
from sarameya.service.output.command_result import CommandResult, log_client_event, run_and_print
from sarameya.service.output.help_epilog import epilog
from sarameya.service.output.progress_display import LINE_INTERVAL, steps

_STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Assigning",
    "Reconciling",
    "NotReady",
)
"""States that brokers report, of any type of group."""

Operation = Callable[[GroupAdmin], Awaitable[CommandResult]]


# -- the command line ----------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.epilog = epilog(
        "sarameya groups list --bootstrap localhost:9092",
        "sarameya groups describe orders-landing --bootstrap localhost:9092",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_list(subcommand(commands, "list", "list the cluster's groups", _list))
    _add_describe(subcommand(commands, "describe", "show a group's members, offsets and lag", _describe))
    summary = "remove groups without members, and their commits"
    _add_delete(subcommand(commands, "delete", summary, _delete))
    summary = "change a group's committed offsets"
    offsets = commands.add_parser("offsets", help=summary, description=summary)
    offsets.epilog = epilog("sarameya groups offsets reset --app landing.toml --topic orders --to-earliest")
    commands = offsets.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_reset(subcommand(commands, "reset", "set the offsets from which a group without members continues", _reset))
    summary = "delete commits of topics that no member of the group reads"
    _add_offsets_delete(subcommand(commands, "delete", summary, _delete_offsets))


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        dest="states",
        type=_states,
        action="extend",
        default=[],
        metavar="STATE[,...]",
        help=f"list groups in these states only: {', '.join(_STATES)}",
    )
    parser.epilog = epilog("sarameya groups list --bootstrap localhost:9092 --state Empty,Stable")
    add_shared_arguments(parser)


def _add_describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="the groups to describe")
    parser.epilog = epilog(
        "sarameya groups describe orders-landing --bootstrap localhost:9092",
        "sarameya groups describe --app landing.toml",
        "sarameya groups describe --all --properties client.properties --json",
    )
    parser.add_argument("--all", action="store_true", help="describe every group of the cluster")
    add_shared_arguments(parser)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="the groups to remove")
    parser.epilog = epilog("sarameya groups delete orders-landing --bootstrap localhost:9092 --execute")
    add_execute_argument(parser)
    add_shared_arguments(parser)


def _add_reset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", nargs="?", metavar="GROUP", help="the group; it must have no members")
    parser.epilog = epilog(
        "sarameya groups offsets reset orders-landing --topic orders --to-earliest --bootstrap localhost:9092",
        "sarameya groups offsets reset --app landing.toml --all-topics --to-datetime 2026-01-31T12:00:00Z --execute",
        "sarameya groups offsets reset g --topic orders:0,2-4 --shift-by -100 --bootstrap localhost:9092",
    )
    _add_topics(parser)
    target = parser.add_argument_group("the new offset").add_mutually_exclusive_group(required=True)
    constants = {"earliest": ResetKind.EARLIEST, "latest": ResetKind.LATEST, "current": ResetKind.CURRENT}
    for name, kind in constants.items():
        text = f"to {ResetTarget(kind)}"
        target.add_argument(f"--to-{name}", dest="target", action="store_const", const=ResetTarget(kind), help=text)
    values: list[tuple[str, Callable[[str], ResetTarget], str, str]] = [
        ("--to", _to, "POLICY", "to a policy as for offset_initial: oldest, newest, timestamp:TIME, by_duration:PT1H"),
        ("--to-offset", _to_offset, "N", "to this offset"),
        ("--shift-by", _shift, "N", "by N messages, backward if N is below 0"),
        ("--to-datetime", _to_moment, "TIME", "to the first message since this ISO 8601 time (without a zone: UTC)"),
        ("--by-duration", _back_by, "P1DT2H", "to the first message within this ISO 8601 duration before now"),
    ]
    for option, parse, metavar, text in values:
        target.add_argument(option, dest="target", type=parse, metavar=metavar, help=text)
    add_execute_argument(parser)
    parser.add_argument("--quiet", action="store_true", help="hide progress")
    add_shared_arguments(parser)


def _add_offsets_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", nargs="?", metavar="GROUP", help="the group")
    parser.epilog = epilog(
        "sarameya groups offsets delete orders-landing --topic orders:3 --bootstrap localhost:9092 --execute"
    )
    _add_topics(parser)
    add_execute_argument(parser)
    add_shared_arguments(parser)


def _add_topics(parser: argparse.ArgumentParser) -> None:
    which = parser.add_argument_group("which partitions").add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--topic",
        dest="topics",
        type=topic_choice,
        action="append",
        default=[],
        metavar="TOPIC[:0,2-4]",
        help="all partitions of a topic, or some; may be given again",
    )
    which.add_argument("--all-topics", action="store_true", help="every partition with a commit of the group")


def _states(text: str) -> list[str]:
    known = {state.lower(): state for state in _STATES}
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name.lower() not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is no state; the states are {', '.join(_STATES)}")
    return [known[name.lower()] for name in names]


def _to_offset(text: str) -> ResetTarget:
    return ResetTarget(ResetKind.OFFSET, offset(text))


def _shift(text: str) -> ResetTarget:
    try:
        return ResetTarget(ResetKind.SHIFT, int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number") from None


def _to_moment(text: str) -> ResetTarget:
    return ResetTarget(ResetKind.TIME, moment(text))


def _back_by(text: str) -> ResetTarget:
    return ResetTarget(ResetKind.TIME, timestamp_of(duration(text), time.time()))


def _to(text: str) -> ResetTarget:
    try:
        policy = parse_policy(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None
    match policy:
        case "oldest":
            return ResetTarget(ResetKind.EARLIEST)
        case "newest":
            return ResetTarget(ResetKind.LATEST)
        case "fail":
            raise argparse.ArgumentTypeError("'fail' is no offset to reset to")
    return ResetTarget(ResetKind.TIME, timestamp_of(policy, time.time()))


# -- the commands --------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    return _run(args, cluster(args), partial(results.list_groups, states=args.states))


def _describe(args: argparse.Namespace) -> int:
    kafka = cluster(args)
    if args.all and args.groups:
        args.usage_error("name groups, or give --all")
    groups = None if args.all else group_names(args, args.groups, kafka)
    return _run(args, kafka, partial(results.describe, groups=groups))


def _delete(args: argparse.Namespace) -> int:
    kafka = cluster(args)
    groups = group_names(args, args.groups, kafka)
    return _run(args, kafka, partial(results.delete, groups=groups, execute=args.execute))


def _reset(args: argparse.Namespace) -> int:
    kafka = cluster(args)
    (group,) = group_names(args, [args.group] if args.group else [], kafka)

    async def reset(admin: GroupAdmin) -> CommandResult:
        with steps(quiet=args.quiet, patience=LINE_INTERVAL) as progress:
            return await results.reset(admin, group, args.topics, args.target, args.execute, progress)

    return _run(args, kafka, reset)


def _delete_offsets(args: argparse.Namespace) -> int:
    kafka = cluster(args)
    (group,) = group_names(args, [args.group] if args.group else [], kafka)
    return _run(args, kafka, partial(results.delete_offsets, group=group, choices=args.topics, execute=args.execute))


def _run(args: argparse.Namespace, kafka: Cluster, operation: Operation) -> int:
    return run_and_print(args, partial(_with_admin, kafka, operation))


async def _with_admin(kafka: Cluster, operation: Operation) -> CommandResult:
    async with GroupAdmin(kafka.bootstrap_servers, kafka.config, log_client_event) as admin:
        return await operation(admin)
