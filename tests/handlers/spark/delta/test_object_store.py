"""A `DeltaTable` in an object store, whose requests fail, or succeed without a response. No Spark runs."""

from __future__ import annotations

import errno
import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import pytest

from sarameya import ConfigError, HandlerError
from sarameya_handlers import StoreOptions
from sarameya_handlers.landing.links import Link
from sarameya_handlers.landing.stores.places import store_at
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.delta import direct_commits, row_files
from sarameya_handlers.spark.delta import table as table_module
from sarameya_handlers.spark.delta.checks import TableDetail
from sarameya_handlers.spark.delta.commit_rules import CommitRules
from sarameya_handlers.spark.delta.creation import creation
from sarameya_handlers.spark.delta.history.checkpoints import commit_file
from sarameya_handlers.spark.delta.leftovers import ABANDONED_AFTER
from sarameya_handlers.spark.delta.row_files import record_columns
from sarameya_handlers.spark.delta.table import DeltaTable
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.staging import temporary_staging
from sarameya_handlers.spark.tables.table import Layout, Shape
from tests.conformance.adoptions import AdoptedDelta, WrittenShape, write_each
from tests.handlers.spark.delta.direct_commit_process import NO_SPARK, staged
from tests.handlers.spark.delta.kit import KEY, link
from tests.handlers.spark.fake_bucket import Bucket

URL = "s3://lake/orders"
MOST_REQUESTS = 100


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_files, "write_each", write_each)


@pytest.fixture
def table(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AdoptedDelta:
    return table_in(bucket, tmp_path, monkeypatch)


def table_in(bucket: Bucket, staging: Path, monkeypatch: pytest.MonkeyPatch) -> AdoptedDelta:
    for module in ("sarameya_handlers.spark.delta.table", "tests.conformance.adoptions"):
        monkeypatch.setattr(f"{module}.store_at", lambda *_: bucket)
    table = AdoptedDelta(URL, staging)
    table.open(NO_SPARK)
    return table


def land(table: DeltaTable, of: Link, shape: Shape | None = None) -> None:
    landing = staged(table.staging.directory, attrs.evolve(of, attempt=uuid4().hex))
    table.land(NO_SPARK, [landing], shape or Shaping(), lambda phase, landings: None)


def offsets(table: AdoptedDelta) -> list[int]:
    return sorted(n for batch in table.batches(["offset"]) for n in batch.column("offset").to_pylist())


def head(table: DeltaTable) -> int:
    return table.heads(NO_SPARK, [KEY])[KEY].number


def data_files(bucket: Bucket) -> list[str]:
    return sorted(name for name in bucket.names("") if name.endswith(".parquet"))


@pytest.mark.parametrize("shape", [Shaping(), WrittenShape()], ids=["plain", "written"])
def test_links_are_commits_that_name_their_files(table: AdoptedDelta, bucket: Bucket, shape: Shape) -> None:
    for number in range(1, 5):
        land(table, link(number), shape)
    assert head(table) == 4
    assert offsets(table) == [*range(40)]
    assert data_files(bucket) == sorted(table.files()), "no file is moved, and none is left over"
    assert list(table.leftovers(NO_SPARK)) == []


def test_landing_takes_few_requests_and_lists_nothing(table: AdoptedDelta, bucket: Bucket) -> None:
    for number in (1, 2):
        land(table, link(number))
        table.links(NO_SPARK, KEY, number)
    bucket.requests = 0
    land(table, link(3))
    assert bucket.requests == 7, "twice the newest commit and the next one, which is absent; data, its size, commit"
    assert len(table.links(NO_SPARK, KEY, 3)) == 1
    assert bucket.requests == 10


@pytest.mark.parametrize("shape", [Shaping(), WrittenShape()], ids=["plain", "written"])
@pytest.mark.parametrize("after", [False, True], ids=["not sent", "response lost"])
def test_failure_of_any_request_keeps_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool, shape: Shape
) -> None:
    for request in range(1, MOST_REQUESTS):
        bucket = Bucket()
        table = table_in(bucket, tmp_path, monkeypatch)
        for number in (1, 2):
            land(table, link(number), shape)
        bucket.requests, bucket.fails_at, bucket.fails_after = 0, request, after
        with suppress(OSError, LandingError):
            land(table, link(3), shape)
        is_reached = bucket.requests >= request
        bucket.fails_at = 0
        if head(table) == 2:
            land(table, link(3), shape)
        land(table, link(4), shape)
        assert offsets(table) == [*range(40)], request
        for leftover in table.leftovers(NO_SPARK):
            table.remove(NO_SPARK, leftover)
        assert data_files(bucket) == sorted(table.files()), request
        if not is_reached:
            return
    raise AssertionError("a landing takes fewer requests")


def test_commit_of_another_member_is_seen_before_the_next_link(
    table: AdoptedDelta, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = table_in(bucket, tmp_path, monkeypatch)
    land(table, link(1))
    land(other, link(1))
    land(other, link(2))
    land(table, link(3))
    assert (head(table), head(other)) == (3, 3)
    assert offsets(table) == [*range(30)]


def test_commit_reported_as_taken_by_itself_keeps_its_file(
    table: AdoptedDelta, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy may send a request twice: the second one fails."""
    put = bucket.put_if_absent
    with monkeypatch.context() as twice:
        twice.setattr(bucket, "put_if_absent", lambda *arguments: put(*arguments) and put(*arguments))
        for shape in (Shaping(), WrittenShape()):
            land(table, link(head(table) + 1 if table.files() else 1), shape)
    assert head(table) == 2
    assert offsets(table) == [*range(20)]


def test_conflicting_commit_is_put_again_without_new_rows(
    table: AdoptedDelta, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_commits, "_MEETING_SECONDS", (0.0, 0.0))
    put, conflicts = bucket.put_if_absent, list[str]()

    def put_after_conflicts(name: str, *arguments: Any) -> bool:
        if len(conflicts) < 3:
            conflicts.append(name)
            raise OSError(errno.EAGAIN, "ConditionalRequestConflict", name)
        return put(name, *arguments)

    with monkeypatch.context() as contended:
        contended.setattr(bucket, "put_if_absent", put_after_conflicts)
        land(table, link(1), WrittenShape())
    assert conflicts == [commit_file(1)] * 3
    assert offsets(table) == [*range(10)]
    assert len(data_files(bucket)) == 1


def test_rows_of_a_killed_process_are_leftovers(table: AdoptedDelta, bucket: Bucket) -> None:
    land(table, link(1), WrittenShape())
    lost = f"{row_files.rows_directory(bucket)}/{uuid4().hex}"
    bucket.put_over(f"{lost}/_temporary/0/part-00000-1.parquet", b"rows")
    (found,) = table.leftovers(NO_SPARK)
    assert (found.name, found.others_may_take) == (f"{bucket.place}/{lost}", ABANDONED_AFTER)
    table.remove(NO_SPARK, found)
    assert offsets(table) == [*range(10)]
    assert list(table.leftovers(NO_SPARK)) == []


def test_leftovers_in_a_store_only_spark_reaches_need_vacuum(bucket: Bucket, tmp_path: Path) -> None:
    table = DeltaTable(URL, staging=tmp_path)
    table._commit_on_s3(bucket)
    table._require_detail = lambda spark: TableDetail(location="s3a://lake/orders")  # type: ignore[method-assign]
    bucket.requests, bucket.fails_at = 0, 1
    with pytest.raises(HandlerError, match=r"does not reach the store.* let VACUUM remove"):
        table.leftovers(NO_SPARK)


def test_checkpoint_is_written_by_interval(
    table: AdoptedDelta, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[Store, bool]] = []
    rules = CommitRules(columns=record_columns(), checkpoint_interval=5)
    table._detail = TableDetail(location=URL, properties={"delta.enableExpiredLogCleanup": "false"})
    monkeypatch.setattr(AdoptedDelta, "_load_rules", lambda self, spark: rules)
    monkeypatch.setattr(
        "sarameya_handlers.spark.delta.table.write_checkpoint",
        lambda store, *, cleans_up: written.append((store, cleans_up)),
    )
    for number in range(1, 12):
        land(table, link(number))
    assert written == [(bucket, False)] * 2


def test_table_that_only_spark_can_commit_to_is_refused(
    table: AdoptedDelta, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(AdoptedDelta, "_load_rules", lambda self, spark: None)
    detail = TableDetail(location=URL, features=("deletionVectors",), partition_columns=("day",))
    monkeypatch.setattr(AdoptedDelta, "_require_detail", lambda self, spark: detail)
    spark: Any = SparkWithColumns()
    landing = staged(tmp_path, link(1))
    wanted = r"the partition column day, the feature deletionVectors needs commits of Spark.*\(single_driver = true\)"
    with pytest.raises(HandlerError, match=wanted):
        table.land(spark, [landing], Shaping(), lambda phase, landings: None)


class SparkWithColumns:
    """A session that returns only the columns of a table."""

    @property
    def read(self) -> Any:
        return self

    def format(self, _: str) -> Any:
        return self

    def load(self, _: str) -> Any:
        return self

    @property
    def schema(self) -> Any:
        return self

    def jsonValue(self) -> Any:
        return record_columns()


# -- creation ---------------------------------------------------------------------------------------------------------


def test_table_is_created_once(bucket: Bucket) -> None:
    first = creation("t", record_columns())
    assert bucket.put_if_absent(commit_file(0), first)
    assert not bucket.put_if_absent(commit_file(0), creation("t", record_columns()))
    _, protocol, metadata = map(json.loads, first.splitlines())
    assert protocol == {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    assert json.loads(metadata["metaData"]["schemaString"])["fields"][0]["nullable"]


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("at", "timestamp_ntz", "at timestamp_ntz"),
        ("v", "variant", "v variant"),
        ("a b", "long", "the name 'a b'"),
        ("s", {"type": "struct", "fields": [{"name": "x", "type": "void", "nullable": True, "metadata": {}}]}, "s.x"),
        ("l", {"type": "array", "elementType": "timestamp_ntz", "containsNull": True}, "l timestamp_ntz"),
    ],
)
def test_columns_that_need_a_feature_are_refused(name: str, kind: object, wanted: str) -> None:
    columns = {"type": "struct", "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}}]}
    with pytest.raises(HandlerError, match=f"{wanted}.* single_driver = true"):
        creation("delta:s3://lake/orders", columns)


def test_column_with_a_property_that_spark_enforces_is_refused() -> None:
    field = {"name": "c", "type": "string", "nullable": True, "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(2)"}}
    with pytest.raises(HandlerError, match="the column property __CHAR_VARCHAR_TYPE_STRING"):
        creation("delta:s3://lake/orders", {"type": "struct", "fields": [field]})


@pytest.mark.parametrize("option", [{"partition_by": ("day",)}, {"evolve_schema": True}])
def test_layout_that_needs_commits_of_spark_is_refused(tmp_path: Path, option: dict[str, Any]) -> None:
    table = DeltaTable(URL, staging=tmp_path, layout=Layout(**option))
    with pytest.raises(HandlerError, match=f"{next(iter(option))} needs commits of Spark"):
        table._prepare_store(NO_SPARK, Bucket())


# -- options ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def missing_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark has Delta Lake, but the table does not exist."""
    monkeypatch.setattr(table_module, "check_session", lambda spark: None)
    monkeypatch.setattr(TableDetail, "load", lambda spark, table: None)


class Conf:
    """A session with settings."""

    def __init__(self, **settings: str) -> None:
        self.conf = {f"spark.delta.logStore.{name}.impl": store for name, store in settings.items()}


@pytest.mark.usefixtures("missing_table")
def test_sink_commits_on_s3_and_spark_gets_its_connectors_url() -> None:
    spark: Any = Conf()
    table = DeltaTable(URL)
    table.open_unstaged(spark)
    assert table.name == "delta:s3://lake/orders"
    assert table._place.sql == "delta.`s3a://lake/orders`"
    assert table.adopts(Shaping())
    assert temporary_staging() in table.staging.directory.parents


@pytest.mark.usefixtures("missing_table")
def test_spark_commits_with_dynamodb_to_the_url_as_given() -> None:
    spark: Any = Conf(s3="io.delta.storage.S3DynamoDBLogStore")
    table = DeltaTable(URL)
    table.open_unstaged(spark)
    assert not table.adopts(Shaping())
    assert table._place.sql == "delta.`s3://lake/orders`"
    with pytest.raises(HandlerError, match="give a directory to stage in"):
        table.staging  # noqa: B018


@pytest.mark.parametrize("options", [{"table": "./orders"}, {"table": "gs://lake/orders"}, {"single_driver": True}])
def test_store_is_for_commits_of_the_sink_on_s3(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="is for tables on S3 by URL, and not with single_driver"):
        DeltaTable(**{"table": URL, "store": StoreOptions(), **options})


def test_store_without_conditional_puts_is_refused(tmp_path: Path) -> None:
    store = store_at(URL, StoreOptions(endpoint="http://127.0.0.1:1"))
    with pytest.raises(HandlerError, match="conditional puts, and this one's are not known here"):
        DeltaTable(URL, staging=tmp_path)._prepare_store(NO_SPARK, store)
