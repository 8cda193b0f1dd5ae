"""Record the fixtures again with the present build: `python -m tests.compatibility.record PART...`.

Parts: tables, apps, members, names. A recorded part replaces its fixtures of the old build. Do this only deliberately:
the tests have their value from fixtures of an old build.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from trio.testing import MockClock

from sarameya import CommittedOffset, TopicPartition, __version__
from sarameya.embedded import EmbeddedCluster
from sarameya.service.cli.program import main as main_of
from sarameya.service.cli.program import whole_parser
from sarameya_handlers.audit.commands.rewind_command import read_chains
from sarameya_handlers.audit.commands.sweep_command import restate_heads
from sarameya_handlers.audit.facts import GroupFacts, LogSpan
from sarameya_handlers.audit.rewind_plan import plan_rewind
from sarameya_handlers.landing.dead_letters.files import FileDeadLetters
from sarameya_handlers.landing.directory.compaction import compact
from sarameya_handlers.landing.stores.local import LocalStore
from tests.compatibility.apps import APPS, CASES, command_lines, effective, land_lines, printed_app
from tests.compatibility.iceberg_relocation import relocate
from tests.compatibility.kit import (
    DEAD,
    FIRST,
    FIXTURES,
    KINDS,
    LATER,
    OFFSETS_TOPIC,
    OLDER,
    PARTITIONS,
    PLACE,
    SECOND,
    STATES,
    THIRD,
    TOPIC,
    Recorded,
    Store,
    admin_of,
    archive,
    grow,
    land,
    new_cluster,
    records_of,
    replay,
)
from tests.compatibility.members import STRATEGIES, play
from tests.compatibility.names import documents, event_names, watch
from tests.integration.lakes import ICEBERG_CATALOG, lake_properties
from tests.integration.warm_spark import end_warm_spark, warm_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write(name: str, document: Any) -> None:
    path = FIXTURES / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


# -- tables, commits, dead letters ---------------------------------------------------------------


def record_tables() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="fixtures-") as directory,
        warm_spark(lake_properties(Path(directory))) as spark,
    ):
        trio.run(_tables, Store(Path(directory)), spark)
    end_warm_spark()


async def _tables(store: Store, spark: SparkSession) -> None:
    for part in ("tables", "later", "dead-letters"):
        shutil.rmtree(FIXTURES / part, ignore_errors=True)
    async with new_cluster() as cluster:

        async def landed(kind: str, state: str, ends: Sequence[int]) -> None:
            await land(cluster, f"{kind}-{state}", store.sink(kind, state, spark, cluster), ends)

        grow(cluster, FIRST)
        for kind in KINDS:
            for state in STATES:
                await landed(kind, state, FIRST)
        compact(LocalStore(store.path("parquet", "lived")), 2**20, check=lambda: None)
        spark.sql(f"OPTIMIZE delta.`{store.path('delta', 'lived')}`").collect()
        rewrite = "rewrite_data_files(table => 'kept.lived', options => map('rewrite-all', 'true'))"
        spark.sql(f"CALL {ICEBERG_CATALOG}.system.{rewrite}").collect()
        versions = {kind: _version(spark, store, kind) for kind in ("delta", "iceberg")}

        grow(cluster, SECOND)
        for kind in ("delta", "iceberg"):
            await landed(kind, "lived", SECOND)
            await _restore(spark, cluster, store, kind, versions[kind])
        # A gap: the group skips records 4 and 5 of partition 1.
        async with admin_of(cluster) as admin:
            await admin.commit("parquet-lived", {TopicPartition(TOPIC, 1): 6})

        grow(cluster, THIRD)
        for kind in KINDS:
            for state in STATES:
                await landed(kind, state, THIRD)
        for kind in ("delta", "iceberg"):
            table = store.table(kind, "lived")
            heads = table.heads(spark, table.keys(spark))
            restated = next(head for key, head in heads.items() if key.partition == 1)
            restate_heads(spark, table, [restated], time.time())
        _checkpoint(store.path("delta", "lived"))
        tables, later = store.directory / "kept-tables", store.directory / "kept-later"
        _keep(store, tables)
        for kind in KINDS:
            _make_older(tables, kind)
        _write_cluster(cluster)
        await _record_letters(spark, cluster, store)

        grow(cluster, LATER)
        for kind in KINDS:
            for state in STATES:
                await landed(kind, state, LATER)
        _keep(store, later)
    for kind in KINDS:
        for state in (*STATES, OLDER):
            _pack(tables / f"{kind}-{state}", archive("tables", kind, state))
        for state in STATES:
            name = f"{kind}-{state}"
            _pack(later / name, archive("later", kind, state), known=tables / name)


def _version(spark: SparkSession, store: Store, kind: str) -> str:
    if kind == "delta":
        history = spark.sql(f"DESCRIBE HISTORY delta.`{store.path(kind, 'lived')}` LIMIT 1")
        return str(history.collect()[0]["version"])
    query = f"SELECT snapshot_id FROM {ICEBERG_CATALOG}.kept.lived.history ORDER BY made_current_at DESC LIMIT 1"
    return str(spark.sql(query).collect()[0][0])


async def _restore(spark: SparkSession, cluster: EmbeddedCluster, store: Store, kind: str, version: str) -> None:
    """Restore a table to a version, and reset its group to that version, as `sarameya rewind` does."""
    group, table = f"{kind}-lived", store.table(kind, "lived")
    chains = read_chains(spark, table, version)
    logs = {
        TopicPartition(TOPIC, partition): LogSpan(start=0, end=cluster.log(TOPIC, partition).end_offset)
        for partition in PARTITIONS
    }
    moves = plan_rewind(chains, {group: GroupFacts(committed=cluster.committed(group))}, logs)
    assert [move.problem for move in moves] == ["", ""]
    if kind == "delta":
        spark.sql(f"RESTORE TABLE delta.`{store.path(kind, 'lived')}` TO VERSION AS OF {version}").collect()
    else:
        spark.sql(f"CALL {ICEBERG_CATALOG}.system.rollback_to_snapshot('kept.lived', {version})").collect()
    async with admin_of(cluster) as admin:
        after: dict[TopicPartition, int | CommittedOffset] = {
            move.key.topic_partition: move.after for move in moves if move.after is not None
        }
        await admin.commit(group, after)


def _checkpoint(path: Path) -> None:
    import deltalake

    deltalake.DeltaTable(path).create_checkpoint()


def _keep(store: Store, to: Path) -> None:
    """Copy all tables in their present state, with PLACE instead of their directory in the metadata."""
    for kind in KINDS:
        for state in STATES:
            table = to / f"{kind}-{state}"
            shutil.copytree(store.path(kind, state), table)
            if kind == "iceberg":
                relocate(table, str(store.path(kind, state)), PLACE)
            for path in table.rglob(".*.crc"):  # Hadoop's checksum files, which are optional
                path.unlink()


def _pack(table: Path, archived: Path, known: Path | None = None) -> None:
    """Write a table's files into an archive.

    Args:
        table: the directory of the table.
        archived: the archive to write.
        known: the directory of an earlier copy; files that are equal in it are omitted.
    """
    archived.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archived, "w:xz", preset=9) as archive_:
        for path in sorted(table.rglob("*")):
            name = str(path.relative_to(table))
            if known and _same(path, known / name):
                continue
            info = tarfile.TarInfo(name)
            if path.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive_.addfile(info)
                continue
            info.size, info.mode = path.stat().st_size, 0o644
            with path.open("rb") as file:
                archive_.addfile(info, file)


def _same(path: Path, other: Path) -> bool:
    return other.is_file() and path.read_bytes() == other.read_bytes()


_NEWER = re.compile(r'(\\*)"begin\1":-?\d+,\1"cluster_id\1":\1"[^"\\]*\1",')
"""The fields of a link's origin that were added on 2026-11-24."""


def _make_older(tables: Path, kind: str) -> None:
    """Copy the plain table of a kind, and remove the metadata that older builds did not write."""
    older = tables / f"{kind}-{OLDER}"
    shutil.copytree(tables / f"{kind}-plain", older)
    shutil.rmtree(older / "_sarameya" / "schemas", ignore_errors=True)
    for path in older.rglob("*.json"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r'"[0-9a-f]{200,}"', _older_hex, _NEWER.sub("", text)), encoding="utf-8")


def _older_hex(quoted: re.Match[str]) -> str:
    """Return a hex-encoded link of an Iceberg table's properties, without the newer fields."""
    text = bytes.fromhex(quoted[0].strip('"')).decode()
    return f'"{_NEWER.sub("", text).encode().hex()}"'


def _write_cluster(cluster: EmbeddedCluster) -> None:
    """Write `cluster.json`: the ids, and each group's last record of each key in `__consumer_offsets`."""
    commits: dict[str, list[dict[str, Any]]] = {}
    for kind in KINDS:
        for state in STATES:
            group = f"{kind}-{state}"
            journal = cluster._state.offsets_partition(group).topic_partition
            last = {record.key: record.value for record in records_of(cluster, OFFSETS_TOPIC, journal.partition)}
            found = cluster.committed(group)
            rows = [(key, value) for key, value in sorted(last.items()) if group.encode() in key and key[1] == 1]
            assert len(rows) == len(found) == len(PARTITIONS)
            commits[group] = [
                {"key": key.hex(), "value": (value or b"").hex(), "says": _says(value or b"")} for key, value in rows
            ]
    topics = {name: cluster._state.topics.topic(name).id.hex for name in (TOPIC, DEAD)}
    ids = {"cluster_id": cluster._state.cluster_id, "topic_ids": topics, "at": float(round(time.time()))}
    write("cluster.json", {**ids, "commits": commits})


def _says(value: bytes) -> str:
    """Return the metadata text of a commit's value, for people who read the fixture."""
    return value[16:-8].decode()


async def _record_letters(spark: SparkSession, cluster: EmbeddedCluster, store: Store) -> None:
    """Record the dead letter of the poisoned record, in its two forms: headers in a topic, and a row in a file."""
    letter = next(records_of(cluster, DEAD, 0))
    headers = [[name, None if data is None else data.decode()] for name, data in letter.headers]
    write("dead-letters/headers.json", headers)
    directory = store.directory / "dead"
    sink = store.sink("parquet", "lived", spark, cluster, dead_letters=FileDeadLetters(directory))
    sink._table = store.table("parquet", "letters", sink._table._layout)  # type: ignore[attr-defined]
    await land(cluster, "letters", sink, THIRD)
    (file,) = directory.glob("*.parquet")
    shutil.copyfile(file, FIXTURES / "dead-letters" / file.name)


# -- app files and command lines -----------------------------------------------------------------


def record_apps() -> None:
    shutil.rmtree(APPS / "effective", ignore_errors=True)
    for case in CASES:
        found, _ = effective(_call, case)
        write(f"apps/effective/{case}.json", found)
    write("apps/effective/land.json", [printed_app(_call, arguments) for arguments in land_lines()])
    _require_every_argument()


def _call(*argv: str) -> tuple[int, str, str]:
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main_of(argv)
    return code, out.getvalue(), err.getvalue()


def _require_every_argument() -> None:
    """Check that the recorded command lines use all arguments of all commands."""

    def commands(parser: argparse.ArgumentParser, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, inner in action.choices.items():
                    yield from commands(inner, *path, name)
            elif path:
                yield path, action

    common = {"--help", "--debug", "--log-level", "--app", "--properties", "--timeout", "-o", "--bootstrap"}
    missing = []
    for path, action in commands(whole_parser()):
        lines = [arguments for arguments in command_lines() if tuple(arguments[: len(path)]) == path]
        assert lines, path
        if action.help == argparse.SUPPRESS or "--print-app" in action.option_strings:
            continue
        options = set(action.option_strings)
        if options and common.isdisjoint(options) and not any(options & set(arguments) for arguments in lines):
            missing.append((*path, *options))
    assert missing == [], missing


# -- members of a group --------------------------------------------------------------------------


def record_members() -> None:
    recorded = {}
    for strategy in STRATEGIES:
        outcome = trio.run(play, strategy, clock=MockClock(autojump_threshold=0))
        recorded[strategy] = [generation.document() for generation in outcome.rounds]
    write("members.json", recorded)


# -- names ---------------------------------------------------------------------------------------

STEADY = [
    "ClaimEnded",
    "ClaimStarted",
    "Committed",
    "CoordinatorFound",
    "DeadLettered",
    "GroupLeft",
    "Landed",
    "LandingFailed",
    "LandingStarted",
    "MembershipChanged",
    "PartitionsAssigned",
    "SessionEnded",
    "SessionEnding",
    "SessionStarted",
    "TableGrown",
]
"""Events that each run of the service logs."""


def record_names() -> None:
    """Record names. Record the tables before, since the commands run on one of them."""
    write("names.json", trio.run(_names))


async def _names() -> dict[str, Any]:
    recorded = Recorded.read()
    with tempfile.TemporaryDirectory() as directory:
        watched, store = await watch(Path(directory)), Store(Path(directory))
        store.unpack("parquet", "plain")
        async with new_cluster(at=recorded.at) as cluster:
            replay(cluster, recorded)
            printed = await documents(store.path("parquet", "plain"), cluster)
    return {
        "events": event_names(),
        "status": watched.status,
        "answers": watched.answers,
        "metrics": watched.metrics,
        "log": {name: watched.log[name] for name in STEADY},
        "documents": printed,
    }


PARTS: dict[str, Callable[[], None]] = {
    "tables": record_tables,
    "apps": record_apps,
    "members": record_members,
    "names": record_names,
}


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="+", choices=PARTS)
    for part in parser.parse_args(argv).part:
        PARTS[part]()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=FIXTURES, capture_output=True, text=True, check=True)
    write("build.json", {"commit": head.stdout.strip(), "made": f"{date.today()}", "version": __version__})


if __name__ == "__main__":
    main(sys.argv[1:])
