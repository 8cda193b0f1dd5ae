"""Bad records that are found among good ones, and failures that no record causes. Spark is faked."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.poison.poison_search import (
    Poison,
    PoisonError,
    SearchMemory,
    Tolerance,
    dead_letters,
    find_poison,
)
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Landing, PendingLink
from tests.handlers.spark.kit import FakeFrame, FakeSpark
from tests.handlers.spark.test_error_sources import error

FROM = 1_000
YEAR_12_000 = 316_516_000_000_000_000


def records(count: int, step: int = 1) -> pa.Table:
    """Return records from offset FROM in steps of `step`, like those of a compacted log."""
    rows = [
        {
            "key": None if n % 2 else b"k%d" % n,
            "value": b"v%d" % n,
            "topic": "orders",
            "partition": 3,
            "offset": FROM + n * step,
            "timestamp": None,
            "timestampType": 0,
            "headers": [{"key": "n", "value": b"%d" % n}] if n % 3 else None,
        }
        for n in range(count)
    ]
    table = pa.Table.from_pylist(rows, kafka_schema())
    stamps = pa.array([None if n % 5 == 4 else YEAR_12_000 + n * 1000 for n in range(count)], pa.timestamp("us", "UTC"))
    return table.set_column(5, kafka_schema().field("timestamp"), stamps)


def pending_link(table: pa.Table) -> PendingLink:
    link = Link(
        key=ChainKey("lake", "orders", 3),
        number=7,
        from_offset=FROM,
        to_offset=FROM + 10_000_000,
        attempt="a" * 32,
        origin=Origin(group="g"),
    )
    return PendingLink(link, table)


def malformed(offset: int) -> Exception:
    return error("NumberFormatException", f"[CAST_INVALID_INPUT] {offset}", "22018")


def unknown(offset: int) -> Exception:
    return error("SparkException", f"Python worker crashed at {offset}")


@attrs.define
class Fake:
    """A fake Spark. Rows fail with what `failure` returns for them, else with `raises` for their first `bad` record."""

    staging: Path
    bad: Collection[int] = ()
    raises: Callable[[int], Exception] = malformed
    failure: Callable[[pa.Table], Exception | None] = lambda table: None
    shape: Any = attrs.field(factory=Shaping)
    runs: list[int] = attrs.field(factory=list)
    checks: int = 0

    def check(self) -> None:
        self.checks += 1

    def evaluate(self, frame: Any) -> None:
        assert isinstance(frame, FakeFrame)
        table = frame.table
        self.runs.append(table.num_rows)
        assert len(list(self.staging.iterdir())) == 1
        if (raised := self.failure(table)) is not None:
            raise raised
        found = [offset for offset in table["offset"].to_pylist() if offset in self.bad]
        if found:
            raise self.raises(found[0])

    def find(self, table: pa.Table, tolerance: Tolerance | None = None, memory: SearchMemory | None = None) -> Poison:
        found = find_poison(
            FakeSpark(),  # type: ignore[arg-type]
            self.check,
            pending=pending_link(table),
            staging=Staging(self.staging),
            shape=self.shape,
            tolerance=tolerance,
            evaluate=self.evaluate,  # type: ignore[arg-type]
            memory=memory,
        )
        assert list(self.staging.iterdir()) == []
        assert self.checks >= len(self.runs)
        return found


# -- bad records ------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(st.integers(30, 400), st.integers(1, 7), st.data())
def test_bad_records_are_found_and_others_kept(tmp_path: Path, count: int, step: int, data: st.DataObject) -> None:
    table = records(count, step)
    offsets = table["offset"].to_pylist()
    bad = data.draw(st.sets(st.sampled_from(offsets), min_size=1, max_size=10))
    poison = Fake(tmp_path, bad).find(table)

    assert list(poison.bad) == sorted(bad)
    assert all(str(offset) in reason for offset, reason in poison.bad.items())
    assert poison.kept.equals(table.filter(pc.invert(pc.is_in(table["offset"], pa.array(bad, pa.int64())))))


def test_one_bad_record_is_found_in_few_jobs(tmp_path: Path) -> None:
    fake = Fake(tmp_path, {FROM + 77_777})
    assert list(fake.find(records(100_000)).bad) == [FROM + 77_777]
    assert len(fake.runs) < 40
    assert fake.runs[-1] == 99_999, "the kept records are tried together"


def test_batch_without_bad_records_is_kept_whole(tmp_path: Path) -> None:
    table = records(50)
    fake = Fake(tmp_path)
    poison = fake.find(table)
    assert poison.bad == {}
    assert poison.kept is table
    assert fake.runs == [50]


def test_only_record_of_a_batch_can_be_bad(tmp_path: Path) -> None:
    poison = Fake(tmp_path, {FROM}).find(records(1))
    assert list(poison.bad) == [FROM]
    assert poison.kept.num_rows == 0


@attrs.define
class Surveyor:
    """A shape that knows some bad records in advance."""

    knows: dict[int, str]
    is_plain: bool = False
    calls: int = 0

    def unreadable(self, spark: object, landing: Landing) -> list[Any]:
        self.calls += 1
        assert landing.records == 100
        return [attrs.make_class("Bad", ["offset", "reason"])(*known) for known in self.knows.items()]

    def frame(self, spark: Any, landing: Landing) -> Any:
        return Shaping().frame(spark, landing)


def test_known_bad_records_are_not_searched(tmp_path: Path) -> None:
    knows = {FROM + 3: "value: schema 77 is unknown", FROM + 50: "value: no magic byte"}
    fake = Fake(tmp_path, {*knows, FROM + 9}, shape=Surveyor(knows))
    poison = fake.find(records(100))

    assert {**poison.bad, FROM + 9: ""} == {**knows, FROM + 9: ""}
    assert list(poison.bad) == [FROM + 3, FROM + 9, FROM + 50]
    assert fake.runs[0] == 98
    assert fake.shape.calls == 1


def test_fault_62_thousand_undecodable_records_take_two_passes(tmp_path: Path) -> None:
    """The first pass names all bad records, the second tries the rest. The next owner needs the same two passes."""
    bad = {FROM + n: "value: no magic byte" for n in range(0, 250_000, 250)}

    class Many(Surveyor):
        def unreadable(self, spark: object, landing: Landing) -> list[Any]:
            self.calls += 1
            return [attrs.make_class("Bad", ["offset", "reason"])(*known) for known in self.knows.items()]

    table = records(250_000)
    for _ in range(2):
        fake = Fake(tmp_path, bad, shape=Many(bad))
        assert len(fake.find(table).bad) == 1_000
        assert (fake.shape.calls, fake.runs) == (1, [249_000])


@pytest.mark.parametrize("count", [4_000, 4_321, 9_000])
def test_fault_62_search_continues_after_a_rebalance(tmp_path: Path, count: int) -> None:
    """The batch is collected again, and may have another end."""
    bad, memory = {FROM + 7, FROM + 2_500, FROM + 3_333}, SearchMemory()
    whole = Fake(tmp_path, bad)
    whole.find(records(count))

    stopped = Fake(tmp_path, bad, failure=lambda table: KeyboardInterrupt() if 0 < table.num_rows < 5 else None)  # type: ignore
    with pytest.raises(KeyboardInterrupt):
        stopped.find(records(4_000), memory=memory)
    resumed = Fake(tmp_path, bad)
    assert set(resumed.find(records(count), memory=memory).bad) == bad
    assert len(resumed.runs) < len(whole.runs) - 20


@pytest.mark.parametrize("bad", [set(), {FROM + 8}, {FROM + 8, FROM + 3_000}])
def test_search_restarts_when_its_memory_does_not_match(tmp_path: Path, bad: set[int]) -> None:
    """The topic was recreated, and has the same first record."""
    memory = SearchMemory()
    Fake(tmp_path, {FROM + 7, FROM + 2_500}).find(records(4_000), memory=memory)
    assert set(Fake(tmp_path, bad).find(records(4_000), memory=memory).bad) == bad


def test_fault_62_search_of_a_thousand_failures_is_bounded(tmp_path: Path) -> None:
    fake = Fake(tmp_path, range(FROM, FROM + 20_000, 20))
    with pytest.raises(LandingError, match=r"at least \d+ of 20000 records .* more than 2000 Spark jobs .*try_cast"):
        fake.find(records(20_000))
    assert len(fake.runs) <= 2_002


def test_all_bad_records_may_be_known_in_advance(tmp_path: Path) -> None:
    knows = {FROM + 3: "no magic byte"}
    fake = Fake(tmp_path, knows, shape=Surveyor(knows))
    assert fake.find(records(100)).bad == knows
    assert fake.runs == [99]


# -- failures that no record causes -----------------------------------------------------------------


def test_statement_error_blames_no_record(tmp_path: Path) -> None:
    fake = Fake(tmp_path, failure=lambda table: error("AnalysisException", "[UNRESOLVED_COLUMN] nocol", "42703"))
    with pytest.raises(LandingError, match=r"link 7 of lake/orders-3.*no record causes this error.*nocol"):
        fake.find(records(5))
    assert fake.runs == [5]


def test_error_on_an_empty_batch_blames_no_record(tmp_path: Path) -> None:
    fake = Fake(tmp_path, failure=lambda table: malformed(0))
    with pytest.raises(LandingError, match="fails without any record") as caught:
        fake.find(records(5))
    assert not caught.value.passes
    assert fake.runs == [5, 0]


def test_unexplained_error_on_an_empty_batch_may_pass(tmp_path: Path) -> None:
    """An example is a store that a transform reads, and that refuses with an unknown text."""
    fake = Fake(tmp_path, failure=lambda table: unknown(0))
    with pytest.raises(LandingError, match="fails without any record") as caught:
        fake.find(records(5))
    assert caught.value.passes


def test_raising_transform_blames_no_record(tmp_path: Path) -> None:
    def transform(frame: Any) -> Any:
        raise KeyError("column")

    with pytest.raises(LandingError, match=r"no record causes this error: .*KeyError: 'column'"):
        Fake(tmp_path, shape=Shaping(transform=transform)).find(records(5))


def test_spark_failure_may_pass_and_blames_no_record(tmp_path: Path) -> None:
    fake = Fake(tmp_path, {FROM}, raises=lambda _: ConnectionRefusedError(111, "Connection refused"))
    with pytest.raises(LandingError, match="Spark failed during the search for bad records") as caught:
        fake.find(records(20))
    assert caught.value.passes


def test_disk_filling_up_during_the_search_blames_no_record(tmp_path: Path) -> None:
    def full(table: pa.Table) -> Exception | None:
        text = "java.io.IOException: No space left on device"
        return error("Py4JJavaError", text, base=Exception) if len(fake.runs) > 4 else None

    fake = Fake(tmp_path, {FROM + 17}, failure=full)
    with pytest.raises(LandingError, match="No space left on device") as caught:
        fake.find(records(1_000))
    assert caught.value.passes


def test_failure_of_all_records_is_blamed_on_the_transform(tmp_path: Path) -> None:
    table = records(1_000)
    fake = Fake(tmp_path, set(table["offset"].to_pylist()))
    with pytest.raises(LandingError, match="of 1000 records cannot be shaped, and no more than 500"):
        fake.find(table)
    assert len(fake.runs) < 1_100


def test_more_bad_records_than_tolerated_stop_the_sink(tmp_path: Path) -> None:
    table = records(1_000)
    bad = set(table["offset"].to_pylist()[::50])
    with pytest.raises(LandingError, match="no more than 19 are"):
        Fake(tmp_path, bad).find(table, Tolerance(records=19))
    assert len(Fake(tmp_path, bad).find(table, Tolerance(records=20)).bad) == 20


def test_known_bad_records_count_against_the_tolerance(tmp_path: Path) -> None:
    offsets = records(100)["offset"].to_pylist()
    knows = dict.fromkeys(offsets[:30], "no magic byte")
    with pytest.raises(LandingError, match=r"no more than 20 are .*no magic byte"):
        Fake(tmp_path, shape=Surveyor(knows)).find(records(100), Tolerance(records=20))
    fake = Fake(tmp_path, set(offsets[:30]), shape=Surveyor(dict.fromkeys(offsets[:15], "no magic byte")))
    with pytest.raises(LandingError, match="no more than 5 are"):
        fake.find(records(100), Tolerance(records=20))


@pytest.mark.parametrize(("count", "most"), [(1, 10), (20, 10), (100, 50), (1_000, 500), (250_000, 1_000)])
def test_tolerance_is_a_share_with_a_minimum(count: int, most: int) -> None:
    assert Tolerance().of(count) == most


def test_unexplained_joint_failure_may_pass(tmp_path: Path) -> None:
    fake = Fake(tmp_path, failure=lambda table: unknown(0) if table.num_rows > 30 else None)
    with pytest.raises(
        LandingError, match=r"records fail as one batch, but each one succeeds alone: .*crashed"
    ) as caught:
        fake.find(records(100))
    assert caught.value.passes, "the cause may be over by now"


def test_explained_joint_failure_is_permanent(tmp_path: Path) -> None:
    fake = Fake(tmp_path, failure=lambda table: malformed(0) if table.num_rows > 30 else None)
    with pytest.raises(LandingError, match="records fail as one batch, but each one succeeds alone") as caught:
        fake.find(records(100))
    assert not caught.value.passes


def test_unexplained_failure_of_all_records_may_pass(tmp_path: Path) -> None:
    fake = Fake(tmp_path, failure=lambda table: unknown(0) if table.num_rows else None)
    with pytest.raises(LandingError, match="records cannot be shaped, and no more than") as caught:
        fake.find(records(100))
    assert caught.value.passes


def test_joint_failure_is_reported_despite_bad_records(tmp_path: Path) -> None:
    def pair(table: pa.Table) -> Exception | None:
        return unknown(0) if {FROM + 2, FROM + 90} <= set(table["offset"].to_pylist()) else None

    with pytest.raises(
        LandingError, match=r"after the 1 failing records were removed, other records fail|fail as one batch"
    ):
        Fake(tmp_path, {FROM + 3}, failure=pair).find(records(100))


def test_unexplained_failure_counts_only_if_repeated(tmp_path: Path) -> None:
    assert list(Fake(tmp_path, {FROM + 9}, raises=unknown).find(records(50)).bad) == [FROM + 9]

    alone: list[int] = []

    def once(table: pa.Table) -> Exception | None:
        if FROM + 9 not in table["offset"].to_pylist():
            return None
        if table.num_rows == 1:
            alone.append(FROM + 9)
        return None if len(alone) > 1 else unknown(9)

    with pytest.raises(LandingError, match="Spark failed for an unknown reason") as caught:
        Fake(tmp_path, failure=once).find(records(50))
    assert caught.value.passes


def test_unexplained_failure_without_records_is_blamed_on_spark(tmp_path: Path) -> None:
    """Spark breaks down during the search. From then on each run fails, also the empty one."""

    def down(table: pa.Table) -> Exception | None:
        return unknown(0) if len(fake.runs) == 1 or len(fake.runs) > 3 else None

    fake = Fake(tmp_path, failure=down)
    with pytest.raises(LandingError, match="Spark failed for an unknown reason") as caught:
        fake.find(records(2))
    assert caught.value.passes


def test_search_ends_when_its_caller_abandons_it(tmp_path: Path) -> None:
    class Abandoned(BaseException):
        pass

    @attrs.define
    class AbandonedFake(Fake):
        def check(self) -> None:
            super().check()
            if self.checks == 6:
                raise Abandoned

    fake = AbandonedFake(tmp_path, {FROM + 9})
    with pytest.raises(Abandoned):
        fake.find(records(500))
    assert len(fake.runs) < 6
    assert list(tmp_path.iterdir()) == []


# -- dead letters -----------------------------------------------------------------------------------


def test_dead_letters_carry_all_fields_of_their_records(tmp_path: Path) -> None:
    table = records(20)
    poison = Fake(tmp_path, {FROM + 2, FROM + 9}).find(table)
    first, second = dead_letters(pending_link(table), poison)

    assert (first.offset, first.key, first.value) == (FROM + 2, b"k2", b"v2")
    assert first.headers == (("n", b"2"),)
    assert first.timestamp == (YEAR_12_000 + 2_000) // 1000
    assert first.error == f"NumberFormatException: [CAST_INVALID_INPUT] {FROM + 2}"
    assert (second.offset, second.key, second.headers, second.timestamp) == (FROM + 9, None, (), None)


def test_poison_error_names_the_first_record_and_the_count(tmp_path: Path) -> None:
    table = records(20)
    one, two = Fake(tmp_path, {FROM + 2}).find(table), Fake(tmp_path, {FROM + 2, FROM + 9, FROM + 4}).find(table)

    found = PoisonError.of(pending_link(table), one)
    assert not found.retriable
    assert not found.passes
    assert str(found) == (
        "link 7 of lake/orders-3 [1000, 10001000): the record at offset 1002 of orders-3 cannot land: "
        "NumberFormatException: [CAST_INVALID_INPUT] 1002. Set dead_letters to go on without them"
    )
    assert "cannot land, and 2 more of this batch: " in str(PoisonError.of(pending_link(table), two))
