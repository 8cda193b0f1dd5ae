"""Tables written by an older build: this build appends the next links, from the group's committed offset.

Rolling upgrades on one table are tested, too. The old build's code does not run. Instead, the files that its member
wrote next are copied into the table while a member of this build has the table open.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
import trio

from sarameya import Event
from sarameya.embedded import EmbeddedCluster
from sarameya.observe import ClaimStarted
from sarameya_handlers.audit import is_proved, verify_table
from sarameya_handlers.landing.dead_letters.files import FileDeadLetters
from tests.compatibility.kit import (
    DEAD,
    FIXTURES,
    KINDS,
    LATER,
    OLDER,
    PARTITIONS,
    POISON,
    STATES,
    THIRD,
    Recorded,
    Store,
    group_of,
    grow,
    land,
    new_cluster,
    offsets,
    records_of,
    replay,
)
from tests.compatibility.links import Found, check_chains, links_of
from tests.integration.lake_stage import classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.integration,
    # PySpark's collect leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

RECORDED = Recorded.read()
BEYOND = (18, 14)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def spark(lake: Path) -> Iterator[SparkSession]:
    with classic(lake) as session:
        yield session


@pytest.fixture
def store(lake: Path) -> Store:
    return Store(lake, f"_{uuid4().hex[:8]}")


def rows_of(store: Store, spark: SparkSession, kind: str, state: str) -> dict[int, list[int]]:
    return offsets(store.table(kind, state).read(spark))


def all_rows(kind: str, state: str, ends: tuple[int, int]) -> dict[int, list[int]]:
    """Return all offsets once, without the poisoned record and the gap of the lived Parquet table."""
    left_out = {POISON[1], 4, 5} if (kind, state) == ("parquet", "lived") else set()
    return {0: [*range(ends[0])], 1: [offset for offset in range(ends[1]) if offset not in left_out]}


def check_commits(cluster: EmbeddedCluster, kind: str, state: str, store: Store) -> None:
    """Check that the group's commits name the table's heads in the form that an older build reads."""
    heads = {one.partition: one.link for one in links_of(kind, store.path(kind, state))}
    for partition, committed in cluster.committed(group_of(kind, state)).items():
        note = json.loads(committed.metadata)["sarameya"]
        head = heads[partition.partition]
        assert (note["sink"], note["number"], note["attempt"]) == (head["key"]["sink"], head["number"], head["attempt"])


@pytest.mark.parametrize("state", [*STATES, OLDER])
@pytest.mark.parametrize("kind", KINDS)
async def test_recorded_table_accepts_the_next_links(kind: str, state: str, store: Store, spark: SparkSession) -> None:
    store.unpack(kind, state)
    path, group = store.path(kind, state), group_of(kind, state)
    before = links_of(kind, path)
    async with new_cluster(at=RECORDED.at) as cluster:
        replay(cluster, RECORDED)
        grow(cluster, LATER)
        events = await land(cluster, group, store.sink(kind, state, spark, cluster), LATER)
        check_commits(cluster, kind, state, store)

    committed = {tp.partition: one.offset for tp, one in RECORDED.committed(group).items()}
    assert {one.partition.partition: one.offset for one in events if isinstance(one, ClaimStarted)} == committed
    assert rows_of(store, spark, kind, state) == all_rows(kind, state, LATER)
    assert is_proved(verify_table(spark, store.table(kind, state)))
    after = links_of(kind, path)
    check_chains(after, dict(zip(PARTITIONS, LATER, strict=True)))
    assert [one for one in after if one in before] == before
    if state in STATES:
        check_places(kind, state, store, before, after)


def check_places(kind: str, state: str, store: Store, before: list[Found], after: list[Found]) -> None:
    """Check that the next links have the names that the old build's member would use, so that only one can win."""
    by_old_member = Store(store.directory, f"{store.label}_theirs")
    by_old_member.unpack(kind, state)
    by_old_member.unpack(kind, state, later=True)
    places = {(one.partition, one.link["number"]): one.place for one in links_of(kind, by_old_member.path(kind, state))}
    next_links = [one for one in after if one not in before and (one.partition, one.link["number"]) in places]
    assert {one.partition for one in next_links} == set(PARTITIONS)
    assert all(one.place == places[one.partition, one.link["number"]] for one in next_links)


@pytest.mark.parametrize("kind", KINDS)
async def test_links_of_an_old_member_are_accepted_while_running(kind: str, store: Store, spark: SparkSession) -> None:
    """The old member lands the next records first, while a member of this build waits for them."""
    store.unpack(kind, "plain")
    async with new_cluster(at=RECORDED.at) as cluster, trio.open_nursery() as nursery:
        replay(cluster, RECORDED)
        sink = store.sink(kind, "plain", spark, cluster)
        done = trio.Event()

        async def run(*, task_status: trio.TaskStatus[list[Event]]) -> None:
            await land(cluster, group_of(kind, "plain"), sink, BEYOND, task_status=task_status)
            done.set()

        events: list[Event] = await nursery.start(run)
        await until(lambda: sum(isinstance(one, ClaimStarted) for one in events) == len(PARTITIONS))
        store.unpack(kind, "plain", later=True)
        by_old_member = links_of(kind, store.path(kind, "plain"))
        grow(cluster, BEYOND)
        await done.wait()
        check_commits(cluster, kind, "plain", store)

    assert rows_of(store, spark, kind, "plain") == all_rows(kind, "plain", BEYOND)
    assert is_proved(verify_table(spark, store.table(kind, "plain")))
    found = links_of(kind, store.path(kind, "plain"))
    assert [one for one in found if one in by_old_member] == by_old_member
    check_chains(found, dict(zip(PARTITIONS, BEYOND, strict=True)))


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        while not condition():
            await trio.sleep(0.02)


async def test_dead_letters_keep_their_headers_and_columns(store: Store, spark: SparkSession, tmp_path: Path) -> None:
    recorded = json.loads((FIXTURES / "dead-letters" / "headers.json").read_text(encoding="utf-8"))
    (file,) = (FIXTURES / "dead-letters").glob("*.parquet")
    async with new_cluster() as cluster:
        replay(cluster, RECORDED, with_commits=False)
        await land(cluster, group_of("parquet", "lived"), store.sink("parquet", "lived", spark, cluster), THIRD)
        found = letters(cluster)
        shutil.rmtree(store.path("parquet", "lived"))
        to_files = store.sink("parquet", "lived", spark, cluster, dead_letters=FileDeadLetters(tmp_path))
        await land(cluster, "letters", to_files, THIRD)

    # Texts for people may change, and each attempt has its own id.
    variable = ("__sarameya.errors.attempt", "__sarameya.errors.exception.message")
    assert [name for name, _ in found] == [name for name, _ in recorded]
    assert [row for row in found if row[0] not in variable] == [row for row in recorded if row[0] not in variable]

    # The file is named by its content: written again, also by another build, it replaces itself.
    (written,) = tmp_path.glob("*.parquet")  # noqa: ASYNC240  nothing else runs
    assert written.name == file.name
    now, before = pq.read_table(written), pq.read_table(file)
    assert set(before.schema) <= set(now.schema)
    same = [name for name in before.column_names if name not in ("attempt", "error", "written")]
    assert now.select(same).to_pylist() == before.select(same).to_pylist()


def letters(cluster: EmbeddedCluster) -> list[Any]:
    """Return the headers of the only dead letter."""
    (letter,) = records_of(cluster, DEAD, 0)
    return [[name, None if value is None else value.decode()] for name, value in letter.headers]
