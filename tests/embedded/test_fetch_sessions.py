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


QUIET = PartitionReadResult(high_watermark=5, last_stable_offset=5, log_start_offset=0)


class Broker:
    """Fetches quiet partitions unless stated otherwise."""

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
        found = [(asked, (reads or {}).get(asked.partition, QUIET)) for asked in context.partitions]
        return context.answer(found, self.now)

    def open(self, *numbers: int) -> int:
        """Return the id of a new session for these partitions."""
        return self.answer(self.begin(NO_SESSION, INITIAL_EPOCH, wanted(*numbers))).session_id


def told(answer: FetchSessionResponse) -> list[int]:
    return [asked.partition for asked, _ in answer.reads]


def read_of(context: FetchContext) -> list[int]:
    return [asked.partition for asked in context.partitions]


class TestLife:
    def test_full_fetch_is_told_everything_and_given_a_session(self) -> None:
        broker = Broker()
        answer = broker.answer(broker.begin(NO_SESSION, INITIAL_EPOCH, wanted(0, 1)))
        assert (answer.session_id > 0, answer.error, told(answer)) == (True, ErrorCode.NONE, [0, 1])
        assert len(broker.sessions) == 1

    def test_final_epoch_closes_the_session_it_names(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        answer = broker.answer(broker.begin(session_id, FINAL_EPOCH, wanted(0)))
        assert (answer.session_id, told(answer), len(broker.sessions)) == (NO_SESSION, [0], 0)

    def test_full_fetch_closes_the_session_it_names(self) -> None:
        broker = Broker()
        first = broker.open(0)
        second = broker.answer(broker.begin(first, INITIAL_EPOCH, wanted(0))).session_id
        assert (second not in (NO_SESSION, first), len(broker.sessions)) == (True, 1)
        with pytest.raises(Refused) as refused:
            broker.begin(first, 1)
        assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_session_is_made_with_the_answer_not_with_the_request(self) -> None:
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
        assert broker.answer(broker.begin(session_id, 4)).session_id == session_id, "a refused fetch costs nothing"

    def test_epoch_behind_the_last_is_one(self) -> None:
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
        assert told(broker.answer(overtaking, {0: PartitionReadResult(high_watermark=9, log_start_offset=0)})) == [0]


class TestPartitions:
    def test_added_and_forgotten_ones_need_not_be_said_twice(self) -> None:
        broker = Broker()
        session_id = broker.open(0, 1)
        assert read_of(broker.begin(session_id, 1, wanted(2))) == [0, 1, 2]
        assert read_of(broker.begin(session_id, 2, None, keys(0))) == [1, 2]
        assert read_of(broker.begin(session_id, 3)) == [1, 2]

    def test_changed_one_is_read_as_it_was_asked_last_in_its_place(self) -> None:
        broker = Broker()
        session_id = broker.open(0, 1)
        context = broker.begin(session_id, 1, wanted(0, offset=8))
        assert [(asked.partition, asked.fetch_offset) for asked in context.partitions] == [(0, 8), (1, 0)]

    def test_one_that_is_named_and_forgotten_is_forgotten(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        assert read_of(broker.begin(session_id, 1, wanted(1), keys(1))) == [0]

    def test_one_that_was_never_in_it_is_forgotten_in_silence(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        assert read_of(broker.begin(session_id, 1, None, keys(5))) == [0]

    def test_session_left_without_any_ends(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        answer = broker.answer(broker.begin(session_id, 1, None, keys(0)))
        assert (answer.session_id, told(answer), len(broker.sessions)) == (NO_SESSION, [], 0)

    def test_one_added_again_is_told_anew(self) -> None:
        broker = Broker()
        session_id = broker.open(0, 1)
        broker.answer(broker.begin(session_id, 1, None, keys(0)))
        assert told(broker.answer(broker.begin(session_id, 2, wanted(0)))) == [0]


class TestNews:
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
    def test_what_has_changed_is_told_and_what_has_not_is_left_out(self, read: PartitionReadResult) -> None:
        broker = Broker()
        session_id = broker.open(0, 1, 2)
        assert told(broker.answer(broker.begin(session_id, 1), {1: read})) == [1]

    def test_what_was_told_once_is_no_news(self) -> None:
        broker = Broker()
        session_id = broker.open(0, 1)
        moved = PartitionReadResult(high_watermark=6, last_stable_offset=6, log_start_offset=0)
        answers = [told(broker.answer(broker.begin(session_id, epoch), {0: moved})) for epoch in (1, 2)]
        assert answers == [[0], []]

    def test_last_stable_offset_alone_is_no_news(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        read = PartitionReadResult(high_watermark=5, last_stable_offset=3, log_start_offset=0)
        assert told(broker.answer(broker.begin(session_id, 1), {0: read})) == []

    def test_error_is_told_again_and_again_and_its_end_too(self) -> None:
        broker = Broker()
        session_id = broker.open(0)
        failed = {0: PartitionReadResult(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)}
        answers = [broker.answer(broker.begin(session_id, epoch), failed) for epoch in (1, 2)]
        answers += [broker.answer(broker.begin(session_id, epoch)) for epoch in (3, 4)]
        assert [told(answer) for answer in answers] == [[0], [0], [0], []]

    def test_partition_with_records_moves_to_the_end(self) -> None:
        broker = Broker()
        session_id = broker.open(0, 1, 2)
        records = PartitionReadResult(high_watermark=9, log_start_offset=0, records=b"batch")
        broker.answer(broker.begin(session_id, 1), {0: records, 1: PartitionReadResult(high_watermark=6)})
        following = broker.begin(session_id, 2)
        assert read_of(following) == [1, 2, 0], "told without records, 1 keeps its place"
        broker.answer(following, {1: records, 2: records})
        assert read_of(broker.begin(session_id, 3)) == [0, 1, 2]


class TestCache:
    def test_no_slots_no_session_and_all_is_told_every_time(self) -> None:
        broker = Broker(slots=0)
        for _ in range(2):
            answer = broker.answer(broker.begin(NO_SESSION, INITIAL_EPOCH, wanted(0)))
            assert (answer.session_id, told(answer)) == (NO_SESSION, [0])

    def test_young_ones_are_not_evicted(self) -> None:
        broker = Broker(slots=1)
        assert (broker.open(0) > 0, broker.open(0, 1, 2)) == (True, NO_SESSION)

    def test_stale_one_is_evicted_however_large(self) -> None:
        broker = Broker(slots=1)
        first = broker.open(0, 1, 2)
        broker.now = EVICTION_TIME
        assert broker.open(0) == NO_SESSION
        broker.now = EVICTION_TIME + 1
        assert broker.open(0) > 0
        with pytest.raises(Refused):
            broker.begin(first, 1)

    def test_old_one_in_use_makes_way_for_a_larger_one_only(self) -> None:
        broker = Broker(slots=1)
        session_id = broker.open(0, 1)
        for epoch, broker.now in enumerate((EVICTION_TIME / 2, EVICTION_TIME + 1), start=1):
            broker.begin(session_id, epoch)
        assert broker.open(0, 1) == NO_SESSION
        assert broker.open(0, 1, 2) > 0
        with pytest.raises(Refused):
            broker.begin(session_id, 3)

    def test_smallest_of_the_old_ones_goes_first(self) -> None:
        broker = Broker(slots=2)
        large, small = broker.open(0, 1, 2), broker.open(0, 1)
        for epoch, broker.now in enumerate((EVICTION_TIME / 2, EVICTION_TIME + 1), start=1):
            broker.begin(large, epoch)
            broker.begin(small, epoch)
        broker.open(0, 1, 2, 3)
        broker.begin(large, 3)
        with pytest.raises(Refused):
            broker.begin(small, 3)
