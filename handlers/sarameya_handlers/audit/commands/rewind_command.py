"""`sarameya rewind TABLE --to-version V`: sets a group's committed offsets back to the table's version V."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from sarameya import CommittedOffset, DescribedGroup, ErrorCode, GroupAdmin, SarameyaError, TopicPartition
from sarameya.service import Cluster, Steps, cluster, counted, epilog, listed, show, steps
from sarameya_handlers.audit.cluster import group_facts, log_facts, open_admin
from sarameya_handlers.audit.commands import arguments
from sarameya_handlers.audit.rewind_plan import ChainRewind, Chains, plan_rewind, rewind_document, rewind_text
from sarameya_handlers.audit.spark_thread import open_run
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command to `parser`."""
    parser.description = (
        "Set the committed offsets of the groups that land in the table back to an older version of it. Stop the "
        "members first; run it before or after the table is restored to that version. Restore the table itself with "
        "its format's own command. Without --execute, only show the plan."
    )
    parser.epilog = epilog(
        "sarameya rewind delta:/lake/orders --to-version 41 --app landing.toml",
        "sarameya rewind parquet:landing/orders --to-head --bootstrap localhost:9092 --execute",
        exit_codes="0 done, or shown; 1 a group is active or could not be reset, or landing could not continue; "
        "2 the command line or configuration must change",
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--to-version", metavar="V", help="version of the table: Delta's number, Iceberg's snapshot id")
    target.add_argument(
        "--to-head",
        action="store_true",
        help="the table as it is now: if it has no versions, or is restored already",
    )
    parser.add_argument("--execute", action="store_true", help="commit the offsets; by default the plan is only shown")
    arguments.add_arguments(parser, is_for_many=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Rewind, or show the plan. Return 0 if there was no problem.

    Raises:
        SarameyaError: A group is active, or the table or the cluster cannot be read.
    """
    place = cluster(args)
    table = arguments.table_of(args)
    to = f"version {args.to_version}" if args.to_version is not None else "its head"
    with steps(quiet=args.quiet) as progress:
        chains = trio.run(_read, args, table, progress)
        rewinds, active = trio.run(_rewind, place, chains, args.execute, progress)
    show(
        rewind_text(table.name, to, rewinds, active, executed=args.execute),
        rewind_document(table.name, to, rewinds, executed=args.execute),
        as_json=args.json,
    )
    failed = any(rewind.error or rewind.problem for rewind in rewinds) or bool(active)
    return 1 if failed else 0


# -- the table ---------------------------------------------------------------------------------------


async def _read(args: argparse.Namespace, table: Table, progress: Steps) -> Chains:
    async with open_run([table], arguments.spark_options(args), progress, by_spark=bool(args.spark)) as run:
        progress(f"{table.name}: reading its chains")
        chains = await run(lambda spark: read_chains(spark, table, args.to_version))
    if not (chains.now or chains.then):
        raise SarameyaError(
            f"{table.name} has no chain of links, so there is no group to rewind; name the table as its sink does"
        )
    return chains


def read_chains(spark: SparkSession, table: Table, version: str | None) -> Chains:
    """Return the heads now and in the older version, and the first link of chains that this version lacks. Blocking.

    Raises:
        HandlerError: The table has no versions, or not this one.
    """
    now = table.heads(spark, table.keys(spark))
    then = dict(now) if version is None else table.heads_at(spark, version)
    first: dict[ChainKey, Link] = {}
    for key in sorted(now.keys() - then.keys()):
        if links := table.links(spark, key, 1):
            first[key] = links[0]
    return Chains(now=now, then=then, first=first)


# -- the groups --------------------------------------------------------------------------------------


async def _rewind(
    place: Cluster, chains: Chains, execute: bool, progress: Steps
) -> tuple[list[ChainRewind], dict[str, str]]:
    heads = (*chains.now.values(), *chains.then.values())
    names = sorted({head.origin.group for head in heads})
    progress(f"reading {counted(len(names), 'group')} and their logs")
    async with open_admin(place) as admin:
        described = [await admin.describe(name) for name in names]
        groups = {name: await group_facts(admin, name) for name in names}
        committed = {partition for facts in groups.values() for partition in facts.committed}
        logs = await log_facts(admin, chains.then.values(), committed | {head.key.topic_partition for head in heads})
        rewinds = plan_rewind(chains, groups, logs)
        active = {group.group: _members(group) for group in described if group.is_active}
        if execute and active:
            groups_text = "; ".join(f"group {group!r} is active: {members}" for group, members in active.items())
            raise SarameyaError(f"{groups_text}; stop its members first, nothing was changed")
        if execute:
            progress("resetting them", len(names))
            planned, rewinds = rewinds, []
            for done, name in enumerate(names, start=1):
                rewinds += await _commit(admin, name, planned)
                progress.update(done)
    return rewinds, active


def _members(group: DescribedGroup) -> str:
    names = [f"{member.member_id} (client {member.client_id} at {member.host})" for member in group.members]
    return f"{counted(len(names), 'member')}: {listed(names)}" if names else f"it is {group.state}"


async def _commit(admin: GroupAdmin, group: str, rewinds: Sequence[ChainRewind]) -> list[ChainRewind]:
    """Commit the group's new offsets. Return its rewinds, with the coordinator's error in those that it refused."""
    own = [rewind for rewind in rewinds if rewind.group == group]
    wanted: dict[TopicPartition, CommittedOffset] = {
        rewind.key.topic_partition: rewind.after for rewind in own if rewind.after is not None
    }
    codes = await admin.commit(group, wanted) if wanted else {}
    return [
        attrs.evolve(rewind, error=ErrorCode.describe(code)) if code else rewind
        for rewind in own
        for code in [codes.get(rewind.key.topic_partition, 0) if rewind.after is not None else 0]
    ]
