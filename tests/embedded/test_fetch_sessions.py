"""Fetch sessions of a broker (KIP-227): the fetches of a session, changed partitions, and eviction."""

from __future__ import annotations

import random
import uuid

import pytest

from sarameya.embedded.fetch_sessions import (
    EVICTION_TIME,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchContext,
    FetchPartition,
    FetchSessionResponse,
    FetchSessions,
    PartitionKey,
    PartitionReadResult,
    Partitions,
)
from sarameya.embedded.log.epoch_cache import EpochEnd
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode

TOPIC_ID = uuid.UUID(int=7)


def partition(number: int, offset: int = 0) -> FetchPartition:
    return FetchPartition("orders", None, number, offset, 1000, -1, -1)


def wanted(*numbers: int, offset: int = 0) -> Partitions:
    return {(found := partition(number, offset)).key: found for number in numbers}


def keys(*numbers: int) -> list[PartitionKey]:
    return [("orders", number) for number in numbers]


UNCHANGED = PartitionReadResult(high_watermark=5, last_stable_offset=5, log_start_offset=0)


class Broker:
    """A broker's fetch sessions. The partitions of a fetch are unchanged unless `reads` states otherwise."""

    def __init__(self, slots: int = 1000) -> None:
        self.sessions = FetchSessions(random.Random(1), slots=slots)
        self.now = 0.0

    def begin(
        self,
        session_id: int,
        epoch: int,
        named: Partitions | None = None,
        forgotten: list[PartitionKey] | None = None,
        *,
        uses_topic_ids: bool = False,
    ) -> FetchContext:
        return self.sessions.begin(
            session_id, epoch, named or {}, forgotten or [], uses_topic_ids=uses_topic_ids, now=self.now
        )

    def answer(
        self, context: FetchContext, reads: dict[int, PartitionReadResult] | None = None
    ) -> FetchSessionResponse:
        found = [(requested, (reads or {}).get(requested.partition, UNCHANGED)) for requested in context.partitions]
        return context.answer(found, self.now)

    def open(self, *numbers: int) -> int:
        """Return the id of a new session for these partitions."""
        return self.answer(self.begin(NO_SESSION, INITIAL_EPOCH, wanted(*numbers))).session_id


def sent(answer: FetchSessionResponse) -> list[int]:
    return [requested.partition for requested, _ in answer.reads]


def partitions_read(context: FetchContext) -> list[int]:
    return [requested.partition for requested in context.partitions]


class TestLifetime:
    def test_full_fetch_returns_everything_and_a_session(self) -> None:
        broker = Broker()
        answer = broker.answer(broker.begin(NO_SESSION, INITIAL_EPOCH, wanted(0, 1)))
        assert (answer.session_id > 0, answer.error, sent(answer)) == (True, ErrorCode.NONE, [0, 1])
        assert len(broker.sessions) == 1

    def test_final_epoch_closes_the_session_it_names(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        answer = broker.answer(broker.begin(session_id, FINAL_EPOCH, wanted(0)))
        assert (answer.session_id, sent(answer), len(broker.sessions)) == (NO_SESSION, [0], 0)

    def test_full_fetch_closes_the_session_it_names(self) -> None:
        broker = Broker()
        first = broker.open(0)
        second = broker.answer(broker.begin(first, INITIAL_EPOCH, wanted(0))).session_id
        assert (second not in (NO_SESSION, first), len(broker.sessions)) == (True, 1)
        with pytest.raises(Refused) as refused:
            broker.begin(first, 1)
        assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_session_is_created_with_the_response(self) -> None:
        broker = Broker()
        held = broker.begin(NO_SESSION, INITIAL_EPOCH, wanted(0))
        assert len(broker.sessions) == 0
        broker.answer(held)
        assert len(broker.sessions) == 1

    def test_epochs_count_up_and_any_other_is_refused(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        for epoch in (1, 2, 3):
            assert broker.answer(broker.begin(session_id, epoch)).session_id == session_id
        for epoch in (3, 5, 2**31 - 1):
            with pytest.raises(Refused) as refused:
                broker.begin(session_id, epoch)
            assert refused.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert broker.answer(broker.begin(session_id, 4)).session_id == session_id, (
            "a refused fetch does not advance the epoch"
        )

    def test_epoch_after_the_last_int32_is_one(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        broker.sessions._sessions[session_id].epoch = 2**31 - 1
        broker.begin(session_id, 2**31 - 1)
        assert broker.answer(broker.begin(session_id, 1)).session_id == session_id

    def test_session_refuses_the_other_way_to_name_topics(self) -> None:
        broker = Broker()
        by_name = broker.open(0)
        named = FetchPartition("orders", TOPIC_ID, 0, 0, 1000, -1, -1)
        by_id = broker.answer(broker.begin(NO_SESSION, INITIAL_EPOCH, {named.key: named}, uses_topic_ids=True))
        for session_id, uses_topic_ids in ((by_name, True), (by_id.session_id, False)):
            with pytest.raises(Refused) as refused:
                broker.begin(session_id, 1, uses_topic_ids=uses_topic_ids)
            assert refused.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR

    def test_overtaken_fetch_gets_invalid_session_epoch(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        held = broker.begin(session_id, 1)
        overtaking = broker.begin(session_id, 2)
        answer = broker.answer(held, {0: PartitionReadResult(high_watermark=9, log_start_offset=0)})
        assert answer == FetchSessionResponse(session_id, [], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        assert sent(broker.answer(overtaking, {0: PartitionReadResult(high_watermark=9, log_start_offset=0)})) == [0]


class TestPartitions:
    def test_session_remembers_added_and_forgotten_partitions(self) -> None:
        broker = Broker()
        session_id = broker.open(0, 1)
        assert partitions_read(broker.begin(session_id, 1, wanted(2))) == [0, 1, 2]
        assert partitions_read(broker.begin(session_id, 2, None, keys(0))) == [1, 2]
        assert partitions_read(broker.begin(session_id, 3)) == [1, 2]

    def test_changed_partition_keeps_its_place(self) -> None:
        broker = Broker()
        session_id = broker.open(0, 1)
        context = broker.begin(session_id, 1, wanted(0, offset=8))
        assert [(requested.partition, requested.fetch_offset) for requested in context.partitions] == [(0, 8), (1, 0)]

    def test_partition_named_and_forgotten_is_forgotten(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        assert partitions_read(broker.begin(session_id, 1, wanted(1), keys(1))) == [0]

    def test_forgotten_unknown_partition_is_ignored(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        assert partitions_read(broker.begin(session_id, 1, None, keys(5))) == [0]

    def test_session_without_partitions_ends(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        answer = broker.answer(broker.begin(session_id, 1, None, keys(0)))
        assert (answer.session_id, sent(answer), len(broker.sessions)) == (NO_SESSION, [], 0)

    def test_partition_added_again_is_returned_again(self) -> None:
        broker = Broker()
        session_id = broker.open(0, 1)
        broker.answer(broker.begin(session_id, 1, None, keys(0)))
        assert sent(broker.answer(broker.begin(session_id, 2, wanted(0)))) == [0]


class TestChanges:
    @pytest.mark.parametrize(
        "read",
        [
            PartitionReadResult(high_watermark=6, last_stable_offset=5, log_start_offset=0),
            PartitionReadResult(high_watermark=5, last_stable_offset=5, log_start_offset=1),
            PartitionReadResult(high_watermark=5, last_stable_offset=5, log_start_offset=0, records=b"batch"),
            PartitionReadResult(high_watermark=5, log_start_offset=0, preferred_read_replica=0),
            PartitionReadResult(high_watermark=5, log_start_offset=0, diverging=EpochEnd(0, 3)),
            PartitionReadResult(error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ],
        ids=["high watermark", "log start", "records", "preferred replica", "diverging epoch", "error"],
    )
    def test_only_changed_partitions_are_returned(self, read: PartitionReadResult) -> None:
        broker = Broker()
        session_id = broker.open(0, 1, 2)
        assert sent(broker.answer(broker.begin(session_id, 1), {1: read})) == [1]

    def test_change_is_returned_once(self) -> None:
        broker = Broker()
        session_id = broker.open(0, 1)
        moved = PartitionReadResult(high_watermark=6, last_stable_offset=6, log_start_offset=0)
        answers = [sent(broker.answer(broker.begin(session_id, epoch), {0: moved})) for epoch in (1, 2)]
        assert answers == [[0], []]

    def test_last_stable_offset_alone_is_no_change(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        read = PartitionReadResult(high_watermark=5, last_stable_offset=3, log_start_offset=0)
        assert sent(broker.answer(broker.begin(session_id, 1), {0: read})) == []

    def test_error_is_returned_each_time_and_its_end_once(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        failed = {0: PartitionReadResult(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)}
        answers = [broker.answer(broker.begin(session_id, epoch), failed) for epoch in (1, 2)]
        answers += [broker.answer(broker.begin(session_id, epoch)) for epoch in (3, 4)]
        assert [sent(answer) for answer in answers] == [[0], [0], [0], []]

    def test_partition_with_records_moves_to_the_end(self) -> None:
        broker = Broker()
        session_id = broker.open(0, 1, 2)
        records = PartitionReadResult(high_watermark=9, log_start_offset=0, records=b"batch")
        broker.answer(broker.begin(session_id, 1), {0: records, 1: PartitionReadResult(high_watermark=6)})
        following = broker.begin(session_id, 2)
        assert partitions_read(following) == [1, 2, 0], "returned without records, partition 1 keeps its place"
        broker.answer(following, {1: records, 2: records})
        assert partitions_read(broker.begin(session_id, 3)) == [0, 1, 2]


class TestCache:
    def test_cache_without_slots_creates_no_session(self) -> None:
        broker = Broker(slots=0)
        for _ in range(2):
            answer = broker.answer(broker.begin(NO_SESSION, INITIAL_EPOCH, wanted(0)))
            assert (answer.session_id, sent(answer)) == (NO_SESSION, [0])

    def test_young_session_is_not_evicted(self) -> None:
        broker = Broker(slots=1)
        assert (broker.open(0) > 0, broker.open(0, 1, 2)) == (True, NO_SESSION)

    def test_stale_session_of_any_size_is_evicted(self) -> None:
        broker = Broker(slots=1)
        first = broker.open(0, 1, 2)
        broker.now = EVICTION_TIME
        assert broker.open(0) == NO_SESSION
        broker.now = EVICTION_TIME + 1
        assert broker.open(0) > 0
        with pytest.raises(Refused):
            broker.begin(first, 1)

    def test_old_session_in_use_yields_only_to_a_larger_one(self) -> None:
        broker = Broker(slots=1)
        session_id = broker.open(0, 1)
        for epoch, broker.now in enumerate((EVICTION_TIME / 2, EVICTION_TIME + 1), start=1):
            broker.begin(session_id, epoch)
        assert broker.open(0, 1) == NO_SESSION
        assert broker.open(0, 1, 2) > 0
        with pytest.raises(Refused):
            broker.begin(session_id, 3)

    def test_smallest_old_session_is_evicted_first(self) -> None:
        broker = Broker(slots=2)
        large, small = broker.open(0, 1, 2), broker.open(0, 1)
        for epoch, broker.now in enumerate((EVICTION_TIME / 2, EVICTION_TIME + 1), start=1):
            broker.begin(large, epoch)
            broker.begin(small, epoch)
        broker.open(0, 1, 2, 3)
        broker.begin(large, 3)
        with pytest.raises(Refused):
            broker.begin(small, 3)
