"""`sarameya groups ...`: the command line, and what it prints. What they answer stands in `answers`.

Results go to stdout, all at once and at the end; what could not be had is told on stderr, and the exit code is then
not 0.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import trio

from sarameya.net.group_admin import GroupAdmin
from sarameya.observe import log_event
from sarameya.offset_policy import parse_policy, timestamp_of
from sarameya.service.failures import ExitCode
from sarameya.service.groups import answers
from sarameya.service.groups.arguments import (
    Cluster,
    add_shared_arguments,
    cluster,
    duration,
    group_names,
    moment,
    offset,
    topic_choice,
)
from sarameya.service.groups.reset import Kind, Target
from sarameya.service.log_lines import configure_logging

SUMMARY = "look at the groups of a Kafka cluster, and reset offsets of those without members"

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
"""All that brokers name, of whatever type of group."""

Ask = Callable[[GroupAdmin], Awaitable[answers.Answer]]


# -- the command line ----------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_list(_subcommand(commands, "list", "list the cluster's groups", _list))
    _add_describe(_subcommand(commands, "describe", "show a group's members, offsets and lag", _describe))
    summary = "remove groups without members, and all that they have committed"
    _add_delete(_subcommand(commands, "delete", summary, _delete))
    summary = "change what a group has committed"
    offsets = commands.add_parser("offsets", help=summary, description=summary)
    commands = offsets.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_reset(_subcommand(commands, "reset", "let a group without members go on from elsewhere", _reset))
    summary = "take commits away, of topics that no member of the group reads"
    _add_offsets_delete(_subcommand(commands, "delete", summary, _delete_offsets))


def _subcommand(
    commands: Any, name: str, summary: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(run=run)
    return parser


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
    add_shared_arguments(parser)


def _add_describe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="the groups to describe")
    parser.add_argument("--all", action="store_true", help="describe every group of the cluster")
    add_shared_arguments(parser)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="the groups to remove")
    _add_execute(parser)
    add_shared_arguments(parser)


def _add_reset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", nargs="?", metavar="GROUP", help="the group; it must have no members")
    _add_topics(parser)
    target = parser.add_argument_group("where to").add_mutually_exclusive_group(required=True)
    constants = {"earliest": Kind.EARLIEST, "latest": Kind.LATEST, "current": Kind.CURRENT}
    for name, kind in constants.items():
        text = f"to {Target(kind)}"
        target.add_argument(f"--to-{name}", dest="target", action="store_const", const=Target(kind), help=text)
    values: list[tuple[str, Callable[[str], Target], str, str]] = [
        ("--to", _to, "POLICY", "as offset_initial has it: oldest, newest, timestamp:TIME, by_duration:PT1H"),
        ("--to-offset", _to_offset, "N", "to this offset"),
        ("--shift-by", _shift, "N", "by so many messages, backward if N is below 0"),
        ("--to-datetime", _to_moment, "TIME", "to the first message from a time on, of ISO 8601 (without a zone: UTC)"),
        ("--by-duration", _back_by, "P1DT2H", "to the first message from so long ago on, of ISO 8601"),
    ]
    for option, parse, metavar, text in values:
        target.add_argument(option, dest="target", type=parse, metavar=metavar, help=text)
    _add_execute(parser)
    add_shared_arguments(parser)


def _add_offsets_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", nargs="?", metavar="GROUP", help="the group")
    _add_topics(parser)
    _add_execute(parser)
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
    which.add_argument("--all-topics", action="store_true", help="every partition that the group has committed for")


def _add_execute(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--execute", action="store_true", help="do it; without this it is only shown")


def _states(text: str) -> list[str]:
    known = {state.lower(): state for state in _STATES}
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name.lower() not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is no state; there are {', '.join(_STATES)}")
    return [known[name.lower()] for name in names]


def _to_offset(text: str) -> Target:
    return Target(Kind.OFFSET, offset(text))


def _shift(text: str) -> Target:
    try:
        return Target(Kind.SHIFT, int(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number") from None


def _to_moment(text: str) -> Target:
    return Target(Kind.TIME, moment(text))


def _back_by(text: str) -> Target:
    return Target(Kind.TIME, timestamp_of(duration(text), time.time()))


def _to(text: str) -> Target:
    try:
        policy = parse_policy(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None
    match policy:
        case "oldest":
            return Target(Kind.EARLIEST)
        case "newest":
            return Target(Kind.LATEST)
        case "fail":
            raise argparse.ArgumentTypeError("'fail' is nowhere to go to")
    return Target(Kind.TIME, timestamp_of(policy, time.time()))


# -- the commands --------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    return _run(args, cluster(args), partial(answers.list_groups, states=args.states))


def _describe(args: argparse.Namespace) -> int:
    place = cluster(args)
    if args.all and args.groups:
        args.usage_error("name groups, or give --all")
    groups = None if args.all else group_names(args, args.groups, place)
    return _run(args, place, partial(answers.describe, groups=groups))


def _delete(args: argparse.Namespace) -> int:
    place = cluster(args)
    groups = group_names(args, args.groups, place)
    return _run(args, place, partial(answers.delete, groups=groups, execute=args.execute))


def _reset(args: argparse.Namespace) -> int:
    place = cluster(args)
    (group,) = group_names(args, [args.group] if args.group else [], place)
    wish = partial(answers.reset, group=group, choices=args.topics, target=args.target, execute=args.execute)
    return _run(args, place, wish)


def _delete_offsets(args: argparse.Namespace) -> int:
    place = cluster(args)
    (group,) = group_names(args, [args.group] if args.group else [], place)
    return _run(args, place, partial(answers.delete_offsets, group=group, choices=args.topics, execute=args.execute))


def _run(args: argparse.Namespace, place: Cluster, ask: Ask) -> int:
    configure_logging("debug" if args.debug else args.log_level)
    answer = trio.run(_ask, place, ask)
    if args.json:
        _print(json.dumps(answer.document, indent=2))
    elif answer.text:
        _print(answer.text)
    if answer.errors:
        raise ExceptionGroup("", answer.errors)
    return ExitCode.OK


async def _ask(place: Cluster, ask: Ask) -> answers.Answer:
    async with GroupAdmin(place.bootstrap_servers, place.config, log_event) as admin:
        return await ask(admin)


def _print(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # `| head` has seen enough; the interpreter would complain of it at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
