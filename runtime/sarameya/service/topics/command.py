"""`sarameya topics ...`: its arguments. `results` does the work of the commands."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable
from functools import partial

from sarameya.net.admin.topic_admin import BY_DEFAULT, TopicAdmin
from sarameya.service.app.cluster_arguments import Cluster, cluster, positive
from sarameya.service.groups.arguments import add_execute_argument, add_shared_arguments, subcommand
from sarameya.service.output.command_result import CommandResult, log_client_event, run_and_print
from sarameya.service.output.help_epilog import epilog
from sarameya.service.topics import results

Operation = Callable[[TopicAdmin], Awaitable[CommandResult]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.epilog = epilog(
        "sarameya topics list --bootstrap localhost:9092",
        "sarameya topics create orders --partitions 4 --bootstrap localhost:9092",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_list(subcommand(commands, "list", "list the cluster's topics", _list))
    _add_describe(subcommand(commands, "describe", "show partitions, leaders, logs and settings of topics", _describe))
    _add_create(subcommand(commands, "create", "create topics", _create))
    _add_grow(subcommand(commands, "grow", "give a topic more partitions", _grow))
    _add_delete(subcommand(commands, "delete", "delete topics with all their messages", _delete))


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.epilog = epilog("sarameya topics list --bootstrap localhost:9092 --internal")
    parser.add_argument("--internal", action="store_true", help="list Kafka's internal topics, too")
    add_shared_arguments(parser)


def _add_describe(parser: argparse.ArgumentParser) -> None:
    parser.epilog = epilog(
        "sarameya topics describe orders --bootstrap localhost:9092",
        "sarameya topics describe --all --properties client.properties --json",
    )
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="the topics to describe")
    parser.add_argument("--all", action="store_true", help="describe every topic of the cluster")
    add_shared_arguments(parser)


def _add_create(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="the topics to create")
    parser.epilog = epilog(
        "sarameya topics create orders --partitions 4 --bootstrap localhost:9092",
        "sarameya topics create a b --replication-factor 3 --config retention.ms=604800000 --app landing.toml",
    )
    parser.add_argument(
        "--partitions",
        type=positive,
        default=BY_DEFAULT,
        metavar="N",
        help="partitions of each topic (default: the brokers' setting)",
    )
    parser.add_argument(
        "--replication-factor",
        type=positive,
        default=BY_DEFAULT,
        metavar="N",
        help="replicas of each partition (default: the brokers' setting)",
    )
    parser.add_argument(
        "--config",
        dest="settings",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a topic setting by Kafka's name, for example retention.ms=86400000; may be given again",
    )
    add_shared_arguments(parser)


def _add_grow(parser: argparse.ArgumentParser) -> None:
    parser.epilog = epilog("sarameya topics grow orders --partitions 8 --bootstrap localhost:9092 --execute")
    parser.add_argument("topic", metavar="TOPIC", help="the topic")
    parser.add_argument("--partitions", type=positive, required=True, metavar="N", help="the new number of partitions")
    add_execute_argument(parser)
    add_shared_arguments(parser)


def _add_delete(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="the topics to delete")
    parser.epilog = epilog("sarameya topics delete orders --bootstrap localhost:9092 --execute")
    add_execute_argument(parser)
    add_shared_arguments(parser)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=VALUE, for example retention.ms=86400000")
    return name, value


# -- the commands --------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    return _run(args, partial(results.list_topics, internal=args.internal))


def _describe(args: argparse.Namespace) -> int:
    if bool(args.topics) == args.all:
        args.usage_error("name topics, or give --all")
    return _run(args, partial(results.describe, names=None if args.all else args.topics))


def _create(args: argparse.Namespace) -> int:
    operation = partial(
        results.create,
        names=list(dict.fromkeys(args.topics)),
        partitions=args.partitions,
        replicas=args.replication_factor,
        settings=dict(args.settings),
    )
    return _run(args, operation)


def _grow(args: argparse.Namespace) -> int:
    return _run(args, partial(results.grow, name=args.topic, partitions=args.partitions, execute=args.execute))


def _delete(args: argparse.Namespace) -> int:
    return _run(args, partial(results.delete, names=args.topics, execute=args.execute))


def _run(args: argparse.Namespace, operation: Operation) -> int:
    return run_and_print(args, partial(_with_admin, cluster(args), operation))


async def _with_admin(kafka: Cluster, operation: Operation) -> CommandResult:
    async with TopicAdmin(kafka.bootstrap_servers, kafka.config, log_client_event) as admin:
        return await operation(admin)
