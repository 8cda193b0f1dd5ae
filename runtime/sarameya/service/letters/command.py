"""`sarameya letters ...`: its arguments. `results` and `redrive` do the work of the commands."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from functools import partial

import trio

from sarameya.errors import ConfigError
from sarameya.offset_policy import timestamp_of
from sarameya.option_kinds import check_group_id
from sarameya.service.app.cluster_arguments import cluster, positive
from sarameya.service.groups.arguments import (
    add_execute_argument,
    add_shared_arguments,
    duration,
    moment,
    subcommand,
    topic_choice,
)
from sarameya.service.letters import results
from sarameya.service.letters.filters import LetterFilter
from sarameya.service.letters.log_reader import Clients, Selection
from sarameya.service.letters.progress_store import group_of
from sarameya.service.letters.redrive import RedriveOptions, redrive
from sarameya.service.letters.redrive_rules import RedriveRules
from sarameya.service.output.command_result import CommandResult, print_out, run_and_print
from sarameya.service.output.error_report import ExitCode
from sarameya.service.output.help_epilog import epilog
from sarameya.service.output.log_format import configure_logging
from sarameya.service.output.progress_display import LINE_INTERVAL, steps

_RULES = RedriveRules()
_OFFSETS = re.compile(r"([0-9]{1,18})?(-)?([0-9]{1,18})?")


# -- the command line ----------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.epilog = epilog(
        "sarameya letters list orders.billing.dead --bootstrap localhost:9092",
        "sarameya letters redrive orders.billing.dead --bootstrap localhost:9092",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_list(subcommand(commands, "list", "count dead letters by origin, group and error", _list))
    _add_show(subcommand(commands, "show", "show dead letters one after the other", _show))
    _add_redrive(subcommand(commands, "redrive", "send dead letters back to the topics that they came from", _redrive))


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.epilog = epilog(
        "sarameya letters list orders.billing.dead --bootstrap localhost:9092",
        "sarameya letters list orders.billing.dead --since PT1H --pending --app billing.toml",
    )
    _add_selection(parser)
    _add_pending(parser)
    parser.add_argument("--quiet", action="store_true", help="hide progress")
    add_shared_arguments(parser)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.epilog = epilog(
        "sarameya letters show orders.billing.dead:0 --offsets 17 --stack --bootstrap localhost:9092",
        "sarameya letters show orders.billing.dead --error-class ValueError --limit 10 --bootstrap localhost:9092",
    )
    _add_selection(parser)
    _add_pending(parser)
    parser.add_argument("--limit", type=positive, metavar="N", help="show N letters at most")
    parser.add_argument("--stack", action="store_true", help="show the exception's stack, too")
    add_shared_arguments(parser, "print each letter as a line of JSON, with all of its content")


def _add_redrive(parser: argparse.ArgumentParser) -> None:
    parser.epilog = epilog(
        "sarameya letters redrive orders.billing.dead --error-class TimeoutError --bootstrap localhost:9092",
        "sarameya letters redrive orders.billing.dead --limit 10 --execute --bootstrap localhost:9092",
        "sarameya letters redrive orders.billing.dead --to-retry-topic orders.billing.retry.1m --app billing.toml",
    )
    _add_selection(parser)
    target = parser.add_argument_group("where to").add_mutually_exclusive_group()
    target.add_argument("--to", metavar="TOPIC", help="send all letters to this topic; the key decides the partition")
    target.add_argument(
        "--to-retry-topic",
        metavar="TOPIC",
        help="send all letters to this retry topic of the group: no other group gets them again",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="send N letters at most")
    parser.add_argument(
        "--max-redrives",
        type=positive,
        default=_RULES.max_redrives,
        metavar="N",
        help=f"refuse letters that were redriven N times already ({_RULES.max_redrives})",
    )
    _add_group(parser)
    parser.add_argument(
        "--skip-others",
        action="store_true",
        help="count letters that the filters leave out as done: no later redrive with this --group sends them",
    )
    add_execute_argument(parser)
    parser.add_argument("--quiet", action="store_true", help="hide progress")
    add_shared_arguments(parser)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "letters",
        type=topic_choice,
        metavar="TOPIC[:0,2-4]",
        help="the topic of dead letters, or some of its partitions",
    )
    group = parser.add_argument_group("which letters")
    group.add_argument(
        "--offsets",
        type=_offsets,
        default=(0, None),
        metavar="FIRST-LAST",
        help="at these offsets; 17, 17- or -17, too",
    )
    group.add_argument("--since", type=_time, metavar="TIME", help="written since this ISO 8601 time, or duration ago")
    group.add_argument("--until", type=_time, metavar="TIME", help="written before this time, or longer ago")
    _add_filter(group, "--origin", "TOPIC[:0,2-4]", "from this topic, or some of its partitions", topic_choice)
    _add_filter(group, "--failed-group", "GROUP", "that this group could not handle")
    _add_filter(group, "--error-class", "CLASS", "with this exception, with or without its module")
    _add_filter(group, "--error-text", "TEXT", "with this in the exception's text; # stands for numbers")


def _add_filter(
    group: argparse._ArgumentGroup, option: str, metavar: str, text: str, parse: Callable[[str], object] = str
) -> None:
    group.add_argument(
        option, type=parse, action="append", default=[], metavar=metavar, help=f"{text}; may be given again"
    )


def _add_pending(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pending", action="store_true", help="leave out letters that were redriven")
    _add_group(parser)


def _add_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--group",
        type=_group,
        metavar="GROUP",
        help=f"the group whose commits say which letters were redriven (`{group_of('TOPIC')}`)",
    )


def _offsets(text: str) -> tuple[int, int | None]:
    match = _OFFSETS.fullmatch(text)
    if match is None or not (match[1] or match[3]) or (match[3] and not match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} must be an offset or a range of offsets: 17, 17-20, 17- or -20")
    first = int(match[1] or 0)
    last = int(match[3]) if match[3] else None if match[2] else first
    if last is not None and last < first:
        raise argparse.ArgumentTypeError(f"{text!r}: the first offset is after the last one")
    return first, last


def _time(text: str) -> int:
    if text.startswith("P"):
        return timestamp_of(duration(text), time.time())
    return moment(text)


def _group(text: str) -> str:
    try:
        check_group_id(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error.allowed}") from None
    return text


# -- the commands --------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    clients, pending_of = _clients(args), _pending_of(args)

    async def run() -> CommandResult:
        with steps(quiet=args.quiet, patience=LINE_INTERVAL) as progress:
            return await results.list_letters(clients, _selection(args), pending_of=pending_of, steps=progress)

    return run_and_print(args, run)


def _show(args: argparse.Namespace) -> int:
    configure_logging("debug" if args.debug else args.log_level)
    run = partial(
        results.show,
        _clients(args),
        _selection(args),
        print_out,
        as_json=args.json,
        with_stack=args.stack,
        limit=args.limit,
        pending_of=_pending_of(args),
    )
    if errors := trio.run(run):
        raise ExceptionGroup("", errors)  # each error is reported in a line of its own, the group is not
    return ExitCode.OK


def _redrive(args: argparse.Namespace) -> int:
    clients, options = _clients(args), _redrive_options(args)

    async def run() -> CommandResult:
        with steps(quiet=args.quiet, patience=LINE_INTERVAL) as progress:
            return await redrive(clients, _selection(args), options, progress)

    return run_and_print(args, run)


def _redrive_options(args: argparse.Namespace) -> RedriveOptions:
    topic, to = args.letters.topic, args.to or args.to_retry_topic
    if to == topic:
        args.usage_error(f"{topic!r} is the topic of the letters: name another one by --to")
    return RedriveOptions(
        group=_group_of(args),
        rules=RedriveRules(to, args.to_retry_topic is not None, args.max_redrives),
        limit=args.limit,
        skip_others=args.skip_others,
        execute=args.execute,
    )


def _clients(args: argparse.Namespace) -> Clients:
    kafka = cluster(args)
    return Clients(kafka.bootstrap_servers, kafka.config)


def _selection(args: argparse.Namespace) -> Selection:
    conditions = LetterFilter(
        since=args.since,
        until=args.until,
        origins=tuple(args.origin),
        groups=tuple(args.failed_group),
        error_classes=tuple(args.error_class),
        error_texts=tuple(args.error_text),
    )
    return Selection(args.letters, args.offsets, conditions)


def _group_of(args: argparse.Namespace) -> str:
    return args.group or group_of(args.letters.topic)


def _pending_of(args: argparse.Namespace) -> str | None:
    if args.group and not args.pending:
        args.usage_error("--group has no effect without --pending")
    return _group_of(args) if args.pending else None
