"""Transactions in a log (KIP-98): open, committed and aborted ones, and the records that consumers may read."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from sarameya.embedded.log.offset_index import INTERVAL, OffsetIndex
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.embedded.log.transaction_index import TransactionIndex
from sarameya.embedded.log.transaction_markers import build_marker, is_commit
from sarameya.embedded.refusal import Refused
from sarameya.embedded.replicas import ReplicaLag
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import build, decode, split
from sarameya.protocol.records.transactions import aborted_batches
from tests.embedded.api_kit import ApiKit, batch, request

T0 = TopicPartition("orders", 0)
ONE, OTHER = 1001, 1002


def transactional(log: PartitionLog, producer_id: int, *values: bytes, epoch: int = 0) -> int:
    """Append one batch of the producer's transaction. Return its base offset."""
    data = build(
        [(1_000, None, value, ()) for value in values or (b"v",)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=log.next_sequence(producer_id, epoch),
        transactional=True,
    )
    return log.append(data).base_offset


def end(log: PartitionLog, producer_id: int, *, committed: bool, epoch: int = 0) -> int:
    return log.append_marker(producer_id, epoch, 1_000, committed=committed).base_offset


def stable(log: PartitionLog) -> int:
    return log.last_stable_offset(log.high_watermark)


class TestMarkers:
    @pytest.mark.parametrize("committed", [True, False])
    def test_marker_is_a_readable_control_batch_of_one_record(self, committed: bool) -> None:
        (raw,) = split(build_marker(ONE, 3, 1_000, committed=committed, coordinator_epoch=7), T0, 0)
        assert (raw.is_control, raw.is_transactional, raw.producer_id, raw.producer_epoch) == (True, True, ONE, 3)
        (record,) = decode(raw, T0)
        assert (record.key, record.value) == (bytes([0, 0, 0, committed]), bytes([0, 0, 0, 0, 0, 7]))
        assert is_commit(raw, T0) is committed

    def test_broken_control_batch_is_neither_commit_nor_abort(self) -> None:
        marker = bytearray(build_marker(ONE, 0, 1_000, committed=True))
        marker[-1] ^= 0xFF  # the CRC does not match any more
        (raw,) = split(bytes(marker), T0, 0)
        assert is_commit(raw, T0) is None


class TestLastStableOffset:
    def test_stable_offset_without_transactions_is_the_watermark(self) -> None:
        log = PartitionLog(T0)
        log.append(batch(b"a", b"b"))
        assert (stable(log), log.last_stable_offset(1)) == (2, 1)

    def test_stable_offset_is_the_first_open_transaction(self) -> None:
        log = PartitionLog(T0)
        log.append(batch(b"a"))
        transactional(log, ONE)
        transactional(log, OTHER)
        log.append(batch(b"b"))
        assert (stable(log), log.open_transactions) == (1, [ONE, OTHER])
        end(log, ONE, committed=True)
        assert (stable(log), log.open_transactions) == (2, [OTHER])
        end(log, OTHER, committed=False)
        assert stable(log) == log.end_offset == 6

    def test_transaction_ends_when_its_marker_is_replicated(self) -> None:
        log = PartitionLog(T0)
        transactional(log, ONE)
        marker = end(log, ONE, committed=True)
        assert [log.last_stable_offset(high_watermark) for high_watermark in (0, 1, marker, marker + 1)] == [0, 0, 0, 2]

    def test_transaction_deleted_by_retention_is_not_open(self) -> None:
        log = PartitionLog(T0)
        transactional(log, ONE)
        log.append(batch(b"a"))
        log.delete_before(1)
        assert stable(log) == 1

    def test_truncation_before_a_marker_reopens_the_transaction(self) -> None:
        log = PartitionLog(T0)
        transactional(log, ONE)
        transactional(log, OTHER)
        marker = end(log, ONE, committed=False)
        log.truncate(marker)
        assert (stable(log), log.open_transactions, log.aborted_transactions(0, 1)) == (0, [ONE, OTHER], [])
        log.truncate(1)
        assert log.open_transactions == [ONE]
        log.truncate(0)
        assert (log.open_transactions, stable(log)) == ([], 0)

    def test_transactions_are_found_in_raw_bytes_too(self) -> None:
        log = PartitionLog(T0)
        source = PartitionLog(T0)
        transactional(source, ONE)
        transactional(source, ONE)
        end(source, ONE, committed=False)
        first, *others = source.batches()
        log.append_raw(first, 0)
        assert log.open_transactions == [ONE]
        log.append_raw(b"".join(others) + b"\xff" * 7, 2)
        assert (stable(log), log.aborted_transactions(0, 1)) == (3, [(ONE, 0)])


class TestAborted:
    @pytest.fixture
    def log(self) -> PartitionLog:
        """Offsets: 0 of ONE; 1 of OTHER; 2 ONE aborts; 3 plain; 4 OTHER commits; 5 of ONE; 6 ONE aborts."""
        log = PartitionLog(T0)
        transactional(log, ONE)
        transactional(log, OTHER)
        end(log, ONE, committed=False)
        log.append(batch(b"a"))
        end(log, OTHER, committed=True)
        transactional(log, ONE)
        end(log, ONE, committed=False)
        return log

    @pytest.mark.parametrize(
        ("offset", "found"),
        [(0, [(ONE, 0), (ONE, 5)]), (2, [(ONE, 0), (ONE, 5)]), (3, [(ONE, 5)]), (6, [(ONE, 5)]), (7, [])],
    )
    def test_aborted_transactions_end_at_or_after_the_offset(
        self, log: PartitionLog, offset: int, found: list[tuple[int, int]]
    ) -> None:
        size = log.readable_bytes(offset)
        assert log.aborted_transactions(offset, size) == found

    def test_empty_read_has_no_aborted_transactions(self, log: PartitionLog) -> None:
        assert log.aborted_transactions(0, 0) == []

    def test_marker_without_records_aborts_nothing(self) -> None:
        log = PartitionLog(T0)
        end(log, ONE, committed=False)
        log.append(batch(b"a"))
        assert (log.aborted_transactions(0, log.readable_bytes(0)), stable(log)) == ([], 2)

    def test_aborted_transactions_far_after_the_read_are_omitted(self) -> None:
        log = PartitionLog(T0)
        for _ in range(3):
            transactional(log, ONE, b"x" * INTERVAL)
            end(log, ONE, committed=False)
        first = len(log.batches()[0])
        assert log.aborted_transactions(0, first) == [(ONE, 0)]
        assert log.aborted_transactions(0, log.readable_bytes(0)) == [(ONE, 0), (ONE, 2), (ONE, 4)]

    @pytest.mark.parametrize("truncates", [False, True], ids=["all deleted", "the rest truncated"])
    def test_aborted_transaction_after_emptied_log_is_found(self, truncates: bool) -> None:
        log = PartitionLog(T0)
        for _ in range(3):
            log.append(batch(b"x" * INTERVAL))
        log.delete_before(2 if truncates else 3)
        if truncates:
            log.truncate(2)
        first = transactional(log, ONE)
        end(log, ONE, committed=False)
        assert log.aborted_transactions(first, log.readable_bytes(first)) == [(ONE, first)]


class TestOffsetIndex:
    def test_index_has_an_entry_every_four_kib(self) -> None:
        index = OffsetIndex()
        for number in range(10):
            index.add(number * 2000, 2000, number)
        # Entries at batch 3 (6,000 bytes before it), 6 and 9.
        assert [index.bound(position) for position in (0, 6000, 6001, 18_000, 18_001)] == [3, 3, 6, 9, None]
        index.truncate(6)
        assert (index.bound(0), index.bound(6001)) == (3, None)


class TestProducers:
    def test_sequences_continue_after_a_marker_of_the_same_epoch(self) -> None:
        log = PartitionLog(T0)
        transactional(log, ONE)
        end(log, ONE, committed=True)
        assert log.next_sequence(ONE, 0) == 1
        transactional(log, ONE)
        end(log, ONE, committed=True, epoch=1)
        assert (log.next_sequence(ONE, 1), log.next_sequence(ONE, 0)) == (0, 0)
        transactional(log, ONE, epoch=1)
        with pytest.raises(Refused) as refused:
            transactional(log, ONE, epoch=0)
        assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH

    def test_marker_of_an_old_epoch_is_refused(self) -> None:
        log = PartitionLog(T0)
        transactional(log, ONE, epoch=1)
        with pytest.raises(Refused) as refused:
            end(log, ONE, committed=True, epoch=0)
        assert (refused.value.code, log.end_offset) == (ErrorCode.INVALID_PRODUCER_EPOCH, 1)

    def test_new_epoch_of_a_marker_restarts_the_sequence(self) -> None:
        log = PartitionLog(T0)
        end(log, ONE, committed=True, epoch=1)
        data = build([(1, None, b"v", ())], producer_id=ONE, producer_epoch=1, base_sequence=4)
        with pytest.raises(Refused) as refused:
            log.append(data)
        assert refused.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


Step = st.tuples(st.sampled_from([ONE, OTHER, 1003, None]), st.sampled_from(["write", "commit", "abort"]))


@given(st.lists(Step, max_size=40), st.integers(0, 2**32))
def test_read_committed_in_any_pieces_returns_committed_records(steps: list[tuple[int | None, str]], seed: int) -> None:
    log, rng = PartitionLog(T0), random.Random(seed)
    states: dict[int, str] = {}
    """The state of each base offset: open, commit or abort. Without a transaction it is commit."""
    for producer_id, step in steps:
        if producer_id is None:
            states[log.append(batch(b"v")).base_offset] = "commit"
        elif step == "write":
            states[transactional(log, producer_id)] = f"open {producer_id}"
        else:
            end(log, producer_id, committed=step == "commit")
            states = {base: step if state == f"open {producer_id}" else state for base, state in states.items()}

    open_offsets = [base for base, state in states.items() if state.startswith("open")]
    assert stable(log) == min([log.end_offset, *open_offsets])

    seen: list[int] = []
    offset = 0
    while offset < stable(log):
        data = log.read(offset, rng.randrange(1, 400), stable(log))
        raws = list(split(data, T0, offset))
        hidden = aborted_batches(raws, log.aborted_transactions(offset, len(data)), T0)
        seen += [raw.base_offset for raw in raws if not raw.is_control and raw.base_offset not in hidden]
        offset = raws[-1].next_offset
    assert seen == [base for base, state in states.items() if state == "commit" and base < stable(log)]


@given(st.lists(Step, max_size=30), st.data())
def test_truncated_index_equals_the_earlier_index(steps: list[tuple[int | None, str]], data: st.DataObject) -> None:
    index = TransactionIndex()
    known: list[tuple[list[int], list[tuple[int, int]]]] = [([], [])]
    for offset, (producer_id, step) in enumerate(steps):
        if producer_id is not None and step == "write":
            index.add(producer_id, offset)
        elif producer_id is not None:
            index.end(producer_id, offset, aborted=step == "abort")
        known.append((list(index.open_producers), index.aborted(0, 10**6)))
    cut = data.draw(st.integers(0, len(steps)))
    index.truncate(cut)
    assert (list(index.open_producers), index.aborted(0, 10**6)) == known[cut]


class TestOnTheWire:
    @pytest.fixture
    def kit(self) -> ApiKit:
        """Offsets: 0 plain; 1 of ONE; 2 ONE aborts; 3 of OTHER; 4 OTHER commits; 5 of ONE, open; 6 plain."""
        kit = ApiKit({"orders": 1}, brokers=2)
        log = kit.cluster.topics.partition("orders", 0).log
        log.append(batch(b"a", timestamp=10))
        transactional(log, ONE)
        end(log, ONE, committed=False)
        transactional(log, OTHER)
        end(log, OTHER, committed=True)
        transactional(log, ONE)
        log.append(batch(b"b", timestamp=2_000))
        return kit

    def fetch(self, offset: int = 0, *, committed: bool, max_wait_ms: int = 0, version: int = 12) -> Any:
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        return request(
            FetchRequest,
            version,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(committed),
            topics=[{"topic": "orders", "partitions": [partition]}],
            forgotten_topics_data=[],
        )

    def read(self, kit: ApiKit, offset: int = 0, node_id: int = 0, **options: Any) -> tuple[int, Any, int, int]:
        """Return the offset after the records, the aborted transactions, the high watermark and last stable offset."""
        (answer,) = kit.ask(self.fetch(offset, **options), node_id)
        (found,) = answer.responses[0].partitions
        aborted = found.aborted_transactions
        raws = list(split(bytes(found.records), T0, offset))
        return (
            raws[-1].next_offset if raws else offset,
            None if aborted is None else [(entry.producer_id, entry.first_offset) for entry in aborted],
            found.high_watermark,
            found.last_stable_offset,
        )

    @pytest.mark.parametrize("version", [4, 12])
    def test_read_committed_stops_at_the_stable_offset(self, kit: ApiKit, version: int) -> None:
        assert self.read(kit, committed=True, version=version) == (5, [(ONE, 1)], 7, 5)
        assert self.read(kit, 3, committed=True, version=version) == (5, [], 7, 5)
        assert self.read(kit, 5, committed=True, version=version) == (5, [], 7, 5)
        assert self.read(kit, committed=False, version=version) == (7, None, 7, 5)

    def test_held_fetch_waits_for_the_marker(self, kit: ApiKit) -> None:
        answers = kit.ask(self.fetch(5, committed=True, max_wait_ms=30_000))
        kit.append("orders", 0, b"c")
        assert answers == []
        written = kit.cluster.end_transaction(ONE, 0, None, committed=True, now=kit.now)
        assert (written, len(answers)) == ({T0: 8}, 1)

    def test_follower_uses_its_own_stable_offset(self, kit: ApiKit) -> None:
        kit.cluster.hold_replica("orders", 0, 1, ReplicaLag(4, 4, in_sync=False), kit.now)
        assert self.read(kit, node_id=1, committed=True) == (3, [(ONE, 1)], 4, 3)

    @pytest.mark.parametrize(
        ("timestamp", "uncommitted", "committed"),
        [(-1, 7, 5), (-2, 0, 0), (1_000, 1, 1), (1_001, 6, -1), (-3, 6, -1)],
        ids=["latest", "earliest", "before", "after", "max_timestamp"],
    )
    def test_listed_offsets_are_the_readable_ones(
        self, kit: ApiKit, timestamp: int, uncommitted: int, committed: int
    ) -> None:
        def listed(isolation_level: int) -> int:
            topics = [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}]
            answer = kit.answer(request(ListOffsetsRequest, 7, isolation_level=isolation_level, topics=topics))
            return int(answer.topics[0].partitions[0].offset)

        assert (listed(0), listed(1)) == (uncommitted, committed)
