"""Landing by a callback, with and without a ledger. Spark is faked, and the ledger is a dictionary."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import pyarrow.parquet as pq
import pytest
from trio.testing import MockClock

from sarameya import CommittedOffset, HandlerError, TopicPartition
from sarameya_handlers import LandingError, SparkSink
from sarameya_handlers.landing.errors import ForeignChainError, LostRecordsError, MovedCommitError
from sarameya_handlers.landing.links import ChainKey, CommitNote, Kind, Link, Origin
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.foreach_batch import ForeachBatch, batch_id
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing, Leftover, Phase
from tests.handlers.kit import FakeSession, batch, claim_of
from tests.handlers.spark.kit import FakeEngine, FakeFrame, FakeSpark, consume, consume_in

KEY = ChainKey("sarameya", "orders", 0)
ORDERS = TopicPartition("orders", 0)
ORIGIN = Origin(group="flights", topic_id="0123456789abcdef" * 2)


class TakenError(Exception):
    """Raised for a duplicate key."""


@attrs.define
class FakeLedger:
    """Links by chain and number, like a table with that primary key."""

    rows: dict[tuple[ChainKey, int], Link] = attrs.field(factory=dict)
    is_down: bool = False

    def record(self, link: Link) -> None:
        if (link.key, link.number) in self.rows:
            raise TakenError(link)
        self.rows[link.key, link.number] = link

    append = record

    def heads(self, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        if self.is_down:
            raise ConnectionError("no route to the database")
        return {key: links[-1] for key in keys if (links := self.links(key, 1))}

    def links(self, key: ChainKey, since: int) -> list[Link]:
        return [link for (chain, number), link in sorted(self.rows.items()) if chain == key and number >= since]


@attrs.define
class Target:
    """A callback that keeps each batch's id and offsets in `landed`.

    It calls `meanwhile` once before its work, and raises `fails` once after it; with `rolled_back` the work is undone.
    """

    ledger: FakeLedger | None = None
    landed: list[tuple[str, list[int]]] = attrs.field(factory=list)
    fails: Exception | None = None
    rolled_back: bool = False
    meanwhile: Callable[[Link], None] | None = None
    calls: int = 0

    def foreach_batch(self, frame: FakeFrame, batch: str, link: Link) -> None:
        self.calls += 1
        if self.meanwhile:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile(link)
        fails, self.fails = self.fails, None
        if not (fails and self.rolled_back):
            if self.ledger:
                self.ledger.record(link)
            self.landed.append((batch, frame.table["offset"].to_pylist()))
        if fails:
            raise fails


@pytest.fixture
def ledger() -> FakeLedger:
    return FakeLedger()


def sink_to(target: Target, directory: Path, **options: Any) -> SparkSink:
    table: Any = ForeachBatch(target.foreach_batch, staging=directory / "staging", ledger=target.ledger)  # type: ignore[arg-type]
    return SparkSink(table, spark=FakeEngine(), **{"max_rows": 10, "max_age": 30.0, **options})


def link(number: int, from_offset: int, to_offset: int) -> Link:
    return Link(
        key=KEY,
        number=number,
        from_offset=from_offset,
        to_offset=to_offset,
        attempt=uuid4().hex,
        origin=ORIGIN,
    )


async def test_batches_are_passed_to_the_callback_with_ids(ledger: FakeLedger, tmp_path: Path) -> None:
    target, session = Target(ledger), FakeSession()
    await consume(sink_to(target, tmp_path), session, claim_of([batch(0, 10), batch(10, 3)]))
    assert target.landed == [
        ("sarameya/orders-0/1", list(range(10))),
        ("sarameya/orders-0/2", [10, 11, 12]),
    ]
    assert session.marks == [("orders", 0, 10), ("orders", 0, 13)]
    assert [(one.number, one.from_offset, one.to_offset) for one in ledger.links(KEY, 1)] == [(1, 0, 10), (2, 10, 13)]
    assert CommitNote.from_metadata(session.metadata[ORDERS]) == CommitNote.of(ledger.links(KEY, 2)[0])
    assert list((tmp_path / "staging").iterdir()) == []


async def test_next_owner_starts_after_the_ledgers_last_link(ledger: FakeLedger, tmp_path: Path) -> None:
    ledger.record(link(1, 0, 7))
    target = Target(ledger)
    async with sink_to(target, tmp_path) as sink:
        await consume_in(sink, FakeSession(), claim_of([batch(7, 2)]), CommittedOffset(0))
    assert target.landed == [("sarameya/orders-0/2", [7, 8])]


async def test_batch_with_a_lost_reply_is_found_in_the_ledger(ledger: FakeLedger, tmp_path: Path) -> None:
    target, session = Target(ledger, fails=ConnectionError("reset")), FakeSession()
    await consume(sink_to(target, tmp_path), session, claim_of([batch(0, 4)]))
    assert target.landed == [("sarameya/orders-0/1", [0, 1, 2, 3])]
    assert session.marks == [("orders", 0, 4)]


async def test_failed_callback_is_retried_with_the_same_id(
    ledger: FakeLedger, tmp_path: Path, autojump_clock: MockClock
) -> None:
    target, session = Target(ledger, fails=ConnectionError("reset"), rolled_back=True), FakeSession()
    await consume(sink_to(target, tmp_path), session, claim_of([batch(0, 4)]))
    assert target.landed == [("sarameya/orders-0/1", [0, 1, 2, 3])]


async def test_batch_whose_number_is_taken_lands_only_its_rest(ledger: FakeLedger, tmp_path: Path) -> None:
    target = Target(ledger, meanwhile=lambda own: ledger.record(link(1, 0, 6)))
    session = FakeSession()
    await consume(sink_to(target, tmp_path), session, claim_of([batch(0, 8)]))
    assert target.landed == [("sarameya/orders-0/2", [6, 7])]
    assert session.marks == [("orders", 0, 6), ("orders", 0, 8)]


async def test_callback_is_not_called_for_a_taken_number(ledger: FakeLedger, tmp_path: Path) -> None:
    target = Target(ledger)
    async with sink_to(target, tmp_path) as sink:
        await sink.partitions_assigned(FakeSession(), [ORDERS])
        await sink.start_offset(ORDERS, None)
        ledger.record(link(1, 0, 4))
        await sink.consume_claim(FakeSession(), claim_of([batch(0, 4)]))
    assert target.calls == 0


@pytest.mark.parametrize("brings_rows", [True, False])
def test_revoked_partition_calls_neither_callback_nor_ledger(
    ledger: FakeLedger, tmp_path: Path, brings_rows: bool
) -> None:
    """The partition may be revoked while the ledger is read."""

    class Abandoned(Exception):
        pass

    def checkpoint(phase: Phase, landings: Sequence[Landing]) -> None:
        assert [one.link.number for one in landings] == [1]
        raise Abandoned(phase)

    target = Target(ledger)
    table = ForeachBatch(target.foreach_batch, staging=tmp_path, ledger=ledger)  # type: ignore[arg-type]
    staged = tmp_path / "staged.parquet"
    pq.write_table(batch(0, 10).to_arrow(), staged)
    landing = Landing(link=link(1, 0, 10), staged=StagedFile(staged) if brings_rows else None, records=10)
    with pytest.raises(Abandoned, match="ready"):
        table.land(FakeSpark(), [landing], Shaping(), checkpoint)  # type: ignore[arg-type]
    assert (target.calls, ledger.rows) == (0, {})


async def test_callback_without_a_ledger_entry_stops_the_partition(tmp_path: Path, ledger: FakeLedger) -> None:
    target = Target()
    table = ForeachBatch(target.foreach_batch, staging=tmp_path, ledger=ledger)  # type: ignore[arg-type]
    session = FakeSession()
    with pytest.raises(LandingError, match=r"the ledger has no link 1 .*must write the link into the ledger"):
        await consume(SparkSink(table, spark=FakeEngine()), session, claim_of([batch(0, 4)]))
    assert len(target.landed) == 1
    assert session.marks == []


async def test_gap_is_recorded_in_the_ledger(ledger: FakeLedger, tmp_path: Path) -> None:
    ledger.record(link(1, 0, 7))
    target = Target(ledger)
    async with sink_to(target, tmp_path, on_missing="leave_out") as sink:
        await consume_in(sink, FakeSession(log=(20, 30)), claim_of([batch(20, 2)], initial_offset=20))
    assert [(one.kind, one.to_offset) for one in ledger.links(KEY, 2)] == [(Kind.GAP, 20), (Kind.RECORDS, 22)]
    assert target.landed == [("sarameya/orders-0/3", [20, 21])]


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.EACCES, HandlerError), (errno.ENOSPC, LandingError), (errno.ESTALE, LandingError)]
)
def test_staging_directory_error_names_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", fail)
    with pytest.raises(kind, match=f"foreach_batch.*: cannot stage in .*: {os.strerror(code)}; "):
        ForeachBatch(print, staging=tmp_path).open(FakeSpark())


async def test_fault_64_start_with_unreachable_ledger_may_be_retried(ledger: FakeLedger, tmp_path: Path) -> None:
    ledger.is_down = True
    with pytest.raises(LandingError, match="the ledger cannot be read: no route to the database") as caught:
        async with sink_to(Target(ledger), tmp_path):
            pass
    assert not caught.value.permanent, "a database that restarts must not end the service for good"
    ledger.is_down = False
    async with sink_to(Target(ledger), tmp_path):
        pass


async def test_permanent_error_of_the_ledger_is_raised(
    ledger: FakeLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise HandlerError("there is no table sarameya_links: create it")

    monkeypatch.setattr(FakeLedger, "heads", refuse)
    with pytest.raises(HandlerError, match="there is no table sarameya_links"):
        async with sink_to(Target(ledger), tmp_path):
            pass


async def test_delivery_guarantee_is_logged_and_named(
    ledger: FakeLedger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "sarameya.spark")
    async with sink_to(Target(ledger), tmp_path):
        assert caplog.records == []
    async with sink_to(Target(), tmp_path):
        pass
    (record,) = caplog.records
    assert "without a ledger a batch is repeated" in record.getMessage()
    names = [ForeachBatch(Target().foreach_batch, staging=tmp_path, ledger=one).name for one in (ledger, None)]  # type: ignore[arg-type]
    assert names == [f"foreach_batch:{__name__}.Target.foreach_batch ({how} once)" for how in ("exactly", "at least")]


# -- without a ledger -----------------------------------------------------------------------------------


async def test_without_a_ledger_numbers_continue_from_the_commit(tmp_path: Path) -> None:
    target, session = Target(), FakeSession()
    async with sink_to(target, tmp_path) as sink:
        await consume_in(sink, session, claim_of([batch(0, 10), batch(10, 3)]))
        committed = CommittedOffset(13, session.metadata[ORDERS])
        await consume_in(sink, session, claim_of([batch(13, 2)]), committed)
    assert [name for name, _ in target.landed] == [f"sarameya/orders-0/{n}" for n in (1, 2, 3)]
    assert session.marks[-1] == ("orders", 0, 15)
    note = CommitNote.from_metadata(session.metadata[ORDERS])
    assert note is not None
    assert note.number == 3


async def test_without_a_ledger_uncommitted_batch_keeps_its_id(tmp_path: Path) -> None:
    target, session = Target(), FakeSession()
    async with sink_to(target, tmp_path) as sink:
        await consume_in(sink, session, claim_of([batch(0, 10)]))
        committed = CommittedOffset(10, session.metadata[ORDERS])
        await consume_in(sink, session, claim_of([batch(10, 3)]), committed)
        # The owner died before that commit. The next owner's batch has another end.
        await consume_in(sink, FakeSession(), claim_of([batch(10, 5)]), committed)
    assert target.landed[1:] == [("sarameya/orders-0/2", [10, 11, 12]), ("sarameya/orders-0/2", [10, 11, 12, 13, 14])]


async def test_without_a_ledger_commit_of_another_owner_is_followed(tmp_path: Path) -> None:
    target = Target()
    foreign = CommitNote("sarameya", 7, uuid4().hex)
    async with sink_to(target, tmp_path) as sink:
        await consume_in(sink, FakeSession(), claim_of([batch(0, 10)]))
        await consume_in(sink, FakeSession(), claim_of([batch(90, 1)]), CommittedOffset(90, foreign.to_metadata()))
    assert target.landed[1:] == [("sarameya/orders-0/8", [90])]


async def test_without_a_ledger_group_reset_clears_the_memory(tmp_path: Path, autojump_clock: MockClock) -> None:
    """Otherwise the sink would take its own earlier link for another owner's, and skip the records."""
    target, session = Target(), FakeSession()
    async with sink_to(target, tmp_path) as sink:
        await consume_in(sink, FakeSession(), claim_of([batch(0, 10)]))
        target.fails, target.rolled_back = ConnectionError("reset"), True
        await consume_in(sink, session, claim_of([batch(0, 4)]), CommittedOffset(0))
    assert target.landed[1:] == [("sarameya/orders-0/1", [0, 1, 2, 3])]
    assert session.marks == [("orders", 0, 4)]


async def test_without_a_ledger_failed_callback_is_retried(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The callback is called again even if its work was complete: there is no record of that."""
    target, session = Target(fails=ConnectionError("reset")), FakeSession()
    await consume(sink_to(target, tmp_path), session, claim_of([batch(0, 4)]))
    assert [name for name, _ in target.landed] == ["sarameya/orders-0/1"] * 2
    assert session.marks == [("orders", 0, 4)]


async def test_without_a_ledger_lost_records_are_detected(tmp_path: Path) -> None:
    note = CommitNote("sarameya", 7, uuid4().hex).to_metadata()
    for log in ((20, 30), (0, 5)):
        async with sink_to(Target(), tmp_path) as sink:
            with pytest.raises(LostRecordsError):
                await consume_in(sink, FakeSession(log=log), claim_of([]), CommittedOffset(10, note))


async def test_without_a_ledger_commit_of_another_sink_is_refused(tmp_path: Path) -> None:
    target = Target()
    other = CommittedOffset(10, CommitNote("other", 7, uuid4().hex).to_metadata())
    async with sink_to(target, tmp_path) as sink:
        with pytest.raises(ForeignChainError):
            await consume_in(sink, FakeSession(), claim_of([]), other)
        await consume_in(sink, FakeSession(), claim_of([batch(10, 1)], initial_offset=10), CommittedOffset(10))
    assert target.landed == [("sarameya/orders-0/1", [10])]


async def test_with_a_ledger_moved_commit_is_refused(ledger: FakeLedger, tmp_path: Path) -> None:
    ledger.record(link(1, 0, 7))
    async with sink_to(Target(ledger), tmp_path) as sink:
        with pytest.raises(MovedCommitError):
            await consume_in(sink, FakeSession(), claim_of([]), CommittedOffset(9))


# -- for the audit --------------------------------------------------------------------------------------


def test_batch_id_is_the_same_for_every_attempt() -> None:
    assert batch_id(link(3, 0, 1)) == batch_id(link(3, 0, 9)) == "sarameya/orders-0/3"


def test_audit_finds_only_staged_files(tmp_path: Path, ledger: FakeLedger) -> None:
    spark: Any = FakeSpark()
    table = ForeachBatch(Target().foreach_batch, staging=tmp_path, ledger=ledger)  # type: ignore[arg-type]
    for operation in (table.read, table.keys, lambda session: table.heads_at(session, "1")):
        with pytest.raises(HandlerError, match="foreach_batch"):
            operation(spark)
    (tmp_path / f"{'a' * 32}.parquet").write_bytes(b"123")
    (tmp_path / "another.parquet").touch()
    (leftover,) = table.leftovers(spark)
    assert (leftover.size_bytes, leftover.what) == (3, "a staged file")
    table.remove(spark, leftover)
    table.remove(spark, leftover)
    assert table.leftovers(spark) == []
    with pytest.raises(HandlerError, match="no leftover"):
        table.remove(spark, Leftover(name="/etc/passwd", size_bytes=1, changed=0.0, what=""))
