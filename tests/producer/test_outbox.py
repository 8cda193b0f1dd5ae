"""Batches, sequences and attempts of a producer, without a network: what is sent, and the effect of each response."""

from __future__ import annotations

import random
from contextlib import suppress
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya import KafkaError, RecordMetadata, RetriesExhaustedError, TopicPartition
from sarameya.embedded.log.partition_log import PartitionLog
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.producer.outbox import Outbox
from sarameya.producer.partition_queue import Batch, Identity, Pending
from sarameya.producer.verdicts import Verdict, refusal, verdict_on
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.records.batch_codec import decode, split
from sarameya.protocol.records.compression import Codec

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ID = Identity(7, 0)


def outbox(*, batch_bytes: int = 10_000, request_bytes: int = 100_000, **bounds: float) -> Outbox:
    backoff = Backoff(1.0, 8.0, jitter=0.0, rng=random.Random(1), **bounds)
    made = Outbox(backoff, batch_bytes=batch_bytes, request_bytes=request_bytes, codec=Codec.NONE)
    made.identity = ID
    return made


def add(box: Outbox, value: bytes, partition: TopicPartition = P0, size: int = 100) -> Pending:
    pending = Pending(partition, 1_000, None, value, (), size, on_outcome=lambda: None)
    box.add(pending)
    return pending


def send(box: Outbox, now: float = 0.0, *, leader: int | None = 1) -> list[Batch]:
    """Return the batches that are due for the only broker."""
    return box.due(lambda _: leader, (), now).requests.get(1, [])


def send_one(box: Outbox, now: float = 0.0) -> Batch:
    (batch,) = send(box, now)
    return batch


def values_of(batch: Batch) -> list[bytes | None]:
    return [pending.value for pending in batch.records]


def sequence_of(batch: Batch) -> tuple[int, int, int]:
    """Return epoch, sequence and count in the batch header."""
    (raw,) = split(batch.data, batch.partition, 0)
    assert raw.producer_id == batch.identity.producer_id
    assert raw.base_sequence == batch.base_sequence
    return raw.producer_epoch, raw.base_sequence, raw.record_count or 0


# -- forming ----------------------------------------------------------------------------------------


def test_records_of_a_partition_share_a_batch_in_order():
    box = outbox()
    for value in (b"a", b"b", b"c"):
        add(box, value)

    batch = send_one(box)
    assert values_of(batch) == [b"a", b"b", b"c"]
    assert [message.value for message in decode(next(split(batch.data, P0, 0)), P0)] == [b"a", b"b", b"c"]
    assert sequence_of(batch) == (0, 0, 3)


def test_one_batch_of_a_partition_is_in_flight_at_a_time():
    box = outbox()
    add(box, b"a")
    first = send_one(box)
    add(box, b"b")
    assert send(box) == []

    box.stored(first, 40)
    assert sequence_of(send_one(box)) == (0, 1, 1)


def test_record_that_does_not_fit_goes_into_the_next_batch():
    box = outbox(batch_bytes=250)
    for value, size in ((b"a", 100), (b"b", 100), (b"c", 100), (b"large", 900), (b"d", 10)):
        add(box, value, size=size)

    sent = []
    for offset in range(4):
        batch = send_one(box)
        sent.append(values_of(batch))
        box.stored(batch, offset)
    assert sent == [[b"a", b"b"], [b"c"], [b"large"], [b"d"]]


def test_request_size_is_limited_and_waiting_partitions_are_next():
    box = outbox(request_bytes=150)
    add(box, b"a", P0)
    add(box, b"b", P1)

    (first,) = send(box)
    assert first.partition == P0
    assert [batch.partition for batch in send(box)] == [P1]
    box.stored(first, 0)
    add(box, b"c", P0)
    assert [batch.partition for batch in send(box)] == [P0]


def test_partitions_take_turns_if_a_request_has_no_room_for_all():
    box = outbox(request_bytes=150)
    seen = []
    for turn in range(6):
        for partition in (P0, P1):
            add(box, b"%d" % turn, partition)
        (batch,) = send(box)
        seen.append(batch.partition)
        box.stored(batch, turn)
    assert seen == [P0, P1] * 3


def test_busy_broker_is_sent_nothing():
    box = outbox()
    add(box, b"a")
    assert box.due(lambda _: 1, {1}, 0.0).requests == {}
    assert box.due(lambda _: 1, {2}, 0.0).requests.keys() == {1}


# -- outcomes ---------------------------------------------------------------------------------------


def test_stored_records_get_their_offsets():
    box = outbox()
    pending = [add(box, b"a"), add(box, b"b")]

    box.stored(send_one(box), 40)
    assert [one.outcome for one in pending] == [RecordMetadata(0, 40), RecordMetadata(0, 41)]
    assert not box.has_work


def test_stored_records_without_a_known_offset_get_minus_one():
    box = outbox()
    pending = [add(box, b"a"), add(box, b"b")]
    box.stored(send_one(box), -1)
    assert [one.outcome for one in pending] == [RecordMetadata(0, -1)] * 2


def test_unanswered_batch_is_resent_unchanged():
    box = outbox()
    add(box, b"a")
    first = send_one(box)
    event = box.again(first, "connection lost", 10.0)
    add(box, b"b")

    assert event is not None
    assert (event.what, event.attempt, event.delay, event.cause) == ("produce to orders-0", 1, 1.0, "connection lost")
    due = box.due(lambda _: 1, (), 10.5)
    assert (due.requests, due.wake_at) == ({}, 11.0)
    assert send_one(box, 11.0) is first
    event = box.again(first, "connection lost", 12.0)
    assert event is not None
    assert (event.attempt, event.elapsed, event.delay) == (2, 2.0, 2.0)
    assert box.trouble(P0) == "connection lost"


def test_other_partitions_do_not_wait_for_a_retry():
    box = outbox()
    add(box, b"a")
    box.again(send_one(box), "cut", 0.0)
    add(box, b"b", P1)
    assert [batch.partition for batch in send(box)] == [P1]


def test_attempts_are_reset_by_a_success():
    box = outbox()
    add(box, b"a")
    batch = send_one(box)
    for _ in range(3):
        box.again(batch, "cut", 0.0)
        send(box, 100.0)
    box.stored(batch, 0)
    add(box, b"b")
    event = box.again(send_one(box, 200.0), "cut", 200.0)
    assert event is not None
    assert (event.attempt, event.elapsed) == (1, 0.0)


def test_partition_without_leader_does_not_delay_the_others():
    box = outbox()
    add(box, b"a")
    add(box, b"b", P1)

    due = box.due(lambda partition: None if partition == P0 else 1, (), 0.0)
    assert [batch.partition for batch in due.requests[1]] == [P1]
    assert due.leaderless == (P0,)
    event = box.leaderless(P0, "the partition has no leader", 0.0)
    assert event is not None
    assert box.due(lambda _: None, (), 0.5).wake_at == 1.0
    assert values_of(send_one(box, 1.0)) == [b"a"]


def test_refused_batch_fails_its_records_and_raises_the_epoch():
    box = outbox()
    pending = [add(box, b"a"), add(box, b"b")]
    error = refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "record for orders-0")
    box.refused(send_one(box), error)

    assert [str(one.outcome) for one in pending] == [str(error)] * 2
    assert pending[0].outcome is not pending[1].outcome
    add(box, b"c")
    assert sequence_of(send_one(box)) == (1, 0, 1)


def test_records_named_as_invalid_fail_and_others_are_resent():
    box = outbox()
    pending = [add(box, value) for value in (b"a", b"b", b"c")]
    box.refused(send_one(box), refusal(ErrorCode.INVALID_RECORD, "x"), [1])

    assert isinstance(pending[1].outcome, KafkaError)
    batch = send_one(box)
    assert values_of(batch) == [b"a", b"c"]
    assert sequence_of(batch) == (1, 0, 2)


def test_invalid_record_indexes_fail_the_whole_batch():
    box = outbox()
    pending = [add(box, b"a"), add(box, b"b")]
    box.refused(send_one(box), refusal(ErrorCode.INVALID_RECORD, "x"), [-1, 2, 99])
    assert all(isinstance(one.outcome, KafkaError) for one in pending)


def test_fenced_producer_needs_another_id():
    box = outbox()
    add(box, b"a")
    box.refused(send_one(box), refusal(ErrorCode.INVALID_PRODUCER_EPOCH, "x"), is_fenced=True)
    assert box.identity is None

    box.identity = Identity(8, 0)
    add(box, b"b")
    assert send_one(box).identity == Identity(8, 0)


def test_fenced_batch_of_an_older_id_leaves_the_newer_id():
    box = outbox()
    add(box, b"a")
    batch = send_one(box)
    box.identity = Identity(8, 0)
    box.refused(batch, refusal(ErrorCode.INVALID_PRODUCER_EPOCH, "x"), is_fenced=True)
    assert box.identity == Identity(8, 0)


def test_unaccepted_sequence_is_reassigned_under_the_next_epoch():
    box = outbox()
    add(box, b"a")
    box.stored(send_one(box), 0)
    add(box, b"b")
    batch = send_one(box)
    add(box, b"c")
    assert box.renumber(batch, "out of order", 5.0) is not None

    assert send(box, 5.5) == []
    resent = send_one(box, 6.0)
    assert values_of(resent) == [b"b", b"c"]
    assert sequence_of(resent) == (1, 0, 2)


def test_other_partitions_take_the_new_epoch_once_idle():
    box = outbox()
    add(box, b"a")
    add(box, b"b", P1)
    first, other = send(box)
    box.renumber(first, "out of order", 0.0)
    assert box.again(other, "cut", 0.0) is not None
    batches = {batch.partition: batch for batch in send(box, 10.0)}
    assert sequence_of(batches[P1]) == (0, 0, 1), "not resent unchanged"
    box.stored(batches[P1], 0)
    add(box, b"c", P1)
    assert sequence_of(send_one(box, 10.0)) == (1, 0, 1)


def test_two_partitions_with_one_error_raise_the_epoch_once():
    box = outbox()
    add(box, b"a")
    add(box, b"b", P1)
    for batch in send(box):
        box.renumber(batch, "out of order", 0.0)
    assert box.identity == Identity(7, 1)


def test_exhausted_epochs_need_another_id():
    box = outbox()
    box.identity = Identity(7, 2**15 - 1)
    add(box, b"a")
    box.renumber(send_one(box), "out of order", 0.0)
    assert box.identity is None


def test_sequence_wraps_to_zero_after_the_maximum():
    box = outbox()
    add(box, b"a")
    box.stored(send_one(box), 0)
    box._queues[P0].sequence = 2**31 - 1
    add(box, b"b")
    batch = send_one(box)
    assert batch.base_sequence == 2**31 - 1
    box.stored(batch, 1)
    add(box, b"c")
    assert send_one(box).base_sequence == 0


def test_too_large_batch_is_split_and_later_ones_stay_small():
    box = outbox()
    for value in (b"a", b"b", b"c", b"d"):
        add(box, value)
    assert box.halve(send_one(box))

    batch = send_one(box)
    assert values_of(batch) == [b"a", b"b"]
    assert sequence_of(batch) == (0, 0, 2)
    box.stored(batch, 0)
    assert sequence_of(send_one(box)) == (0, 2, 2)


def test_batch_of_one_record_cannot_be_halved():
    box = outbox()
    add(box, b"a")
    assert not box.halve(send_one(box))


def test_exhausted_attempts_fail_only_the_batch_sent():
    box = outbox(max_attempts=2)
    pending = add(box, b"a")
    batch = send_one(box)
    box.again(batch, "cut", 0.0)
    later = add(box, b"b")
    send(box, 100.0)
    box.again(batch, "cut", 100.0)
    send(box, 200.0)

    assert box.again(batch, "cut", 200.0) is None
    assert isinstance(pending.outcome, RetriesExhaustedError)
    assert later.outcome is None
    assert sequence_of(send_one(box, 200.0)) == (1, 0, 1)


def test_exhausted_retry_time_ends_the_wait_for_a_leader():
    box = outbox(max_seconds=5.0)
    pending = add(box, b"a")
    assert box.leaderless(P0, "no leader", 0.0) is not None
    assert box.leaderless(P0, "no leader", 6.0) is None
    assert isinstance(pending.outcome, RetriesExhaustedError)
    assert not box.has_work


# -- withdrawn records ------------------------------------------------------------------------------


def test_withdrawn_record_that_was_never_sent_is_not_sent():
    box = outbox()
    withdrawn, wanted = add(box, b"a"), add(box, b"b")
    box.withdraw([withdrawn])
    assert values_of(send_one(box)) == [b"b"]
    assert wanted.outcome is None


def test_batch_is_resent_while_a_caller_waits_for_it():
    box = outbox()
    withdrawn, _ = add(box, b"a"), add(box, b"b")
    batch = send_one(box)
    box.withdraw([withdrawn])
    box.again(batch, "cut", 0.0)
    assert send_one(box, 10.0) is batch


@pytest.mark.parametrize("withdrawn_first", [True, False])
def test_batch_without_waiters_is_not_resent(withdrawn_first):
    box = outbox()
    pending = add(box, b"a")
    batch = send_one(box)
    if withdrawn_first:
        box.withdraw([pending])
        assert box.again(batch, "cut", 0.0) is None
    else:
        box.again(batch, "cut", 0.0)
        box.withdraw([pending])
    assert not box.has_work
    assert box.due(lambda _: 1, (), 100.0).wake_at == inf

    add(box, b"b")
    assert sequence_of(send_one(box, 0.0)) == (1, 0, 1)


def test_late_response_to_a_dropped_batch_changes_nothing():
    box = outbox()
    pending = add(box, b"a")
    batch = send_one(box)
    box.again(batch, "cut", 0.0)
    box.withdraw([pending])
    add(box, b"b")
    current = send_one(box)

    box.stored(batch, 5)
    box.renumber(batch, "x", 0.0)
    box.refused(batch, refusal(ErrorCode.INVALID_RECORD, "x"))
    assert box.halve(batch)
    assert box.again(batch, "x", 0.0) is None
    assert pending.outcome is None
    box.stored(current, 7)
    add(box, b"c")
    assert sequence_of(send_one(box)) == (1, 1, 1)


def test_fail_all_fails_waiting_and_sent_records():
    box = outbox()
    pending = [add(box, b"a"), add(box, b"b", P1)]
    (batch, _) = send(box)
    pending.append(add(box, b"c"))
    box.fail_all(refusal(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "producer id"))

    assert all(isinstance(one.outcome, KafkaError) for one in pending)
    assert not box.has_work
    box.stored(batch, 0)


# -- against a broker -------------------------------------------------------------------------------

Fault = st.sampled_from(["stored", "answer lost", "request lost", "not leader", "late", "corrupt"])


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.lists(Fault, max_size=60),
    st.integers(100, 500),
)
def test_faults_keep_each_record_once_and_in_order(bursts, faults, batch_bytes):
    box, log, now = outbox(batch_bytes=batch_bytes), PartitionLog(P0), 0.0
    pending: list[Pending] = []
    late: list[bytes] = []
    remaining_faults = iter(faults)
    for burst in [*bursts, *[0] * len(faults), 0]:
        pending += [add(box, b"%d" % (len(pending) + n)) for n in range(burst)]
        now += 10.0
        for batch in send(box, now):
            match next(remaining_faults, "stored"):
                case "stored":
                    answer(box, batch, log, now)
                case "answer lost":
                    log.append(batch.data)
                    box.again(batch, "cut", now)
                case "late":
                    late.append(batch.data)
                    box.again(batch, "timed out", now)
                case "request lost" | "not leader" | "corrupt":
                    box.again(batch, "cut", now)
        if late and burst % 2:
            append(log, late.pop())
    while box.has_work:
        now += 10.0
        for batch in send(box, now):
            answer(box, batch, log, now)
    for data in late:
        append(log, data)

    stored = [message.value for data in log.batches() for raw in split(data, P0, 0) for message in decode(raw, P0)]
    assert stored == [one.value for one in pending]
    assert [one.outcome for one in pending] == [RecordMetadata(0, offset) for offset in range(len(pending))]


def append(log: PartitionLog, data: bytes) -> None:
    """Append a batch that arrives late. Its response is lost."""
    with suppress(Refused):
        log.append(data)


def answer(box: Outbox, batch: Batch, log: PartitionLog, now: float) -> None:
    try:
        appended = log.append(batch.data)
    except Refused as refused:
        if verdict_on(refused.code) is not Verdict.RENUMBER:
            raise
        box.renumber(batch, str(refused), now)
    else:
        box.stored(batch, appended.base_offset)
