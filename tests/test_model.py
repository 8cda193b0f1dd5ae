import pickle

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sarameya.message_batch import MessageBatch, MessageColumns
from sarameya.model import (
    NO_LEADER_EPOCH,
    CommittedOffset,
    Generation,
    Message,
    TimestampType,
    TopicPartition,
    by_topic,
    topic_partitions,
)

MESSAGE = Message("orders", 3, 7, 1_700_000_000_000, TimestampType.CREATE_TIME, b"k", None, (("h", b"\xff"),), 5)


def batch(*offsets: int, next_offset: int) -> MessageBatch:
    messages = tuple(replace(MESSAGE, offset=offset) for offset in offsets)
    return MessageBatch("orders", 3, messages, next_offset)


def test_message_has_kafka_s_fields_by_name():
    assert (
        Message(
            topic="orders",
            partition=3,
            offset=7,
            timestamp=1_700_000_000_000,
            timestamp_type=TimestampType.CREATE_TIME,
            key=b"k",
            value=None,
            headers=(("h", b"\xff"),),
            leader_epoch=5,
        )
        == MESSAGE
    )
    assert MESSAGE.topic_partition == TopicPartition("orders", 3)


def test_message_without_headers_or_epoch_has_defaults():
    message = Message("t", 0, 0, -1, TimestampType.NO_TIMESTAMP_TYPE, None, b"v")
    assert (message.headers, message.leader_epoch) == ((), NO_LEADER_EPOCH)


def test_message_is_immutable():
    with pytest.raises(AttributeError):
        MESSAGE.offset = 8
    with pytest.raises(AttributeError):
        MESSAGE.extra = 1


def test_messages_are_compared_and_hashed_by_their_fields():
    assert replace(MESSAGE, offset=8) != MESSAGE
    assert len({MESSAGE, replace(MESSAGE)}) == 1


def test_message_shows_its_fields_by_name():
    assert repr(MESSAGE).startswith("Message(topic='orders', partition=3, offset=7, ")


def test_message_and_batch_survive_pickling():
    assert pickle.loads(pickle.dumps(MESSAGE)) == MESSAGE
    copy = pickle.loads(pickle.dumps(batch(7, 9, next_offset=12)))
    assert (list(copy), copy.next_offset) == (list(batch(7, 9, next_offset=12)), 12)


def test_batch_has_its_offsets_and_iterates_over_messages():
    b = batch(7, 9, next_offset=12)
    assert (b.first_offset, b.last_offset, b.next_offset, len(b)) == (7, 9, 12, 2)
    assert [m.offset for m in b] == [7, 9]
    assert b.topic_partition == TopicPartition("orders", 3)


def test_batch_as_arrow_is_a_table():
    assert isinstance(batch(7, next_offset=8).to_arrow(), pyarrow.Table)


def test_topic_partition_has_the_text_of_kafka_and_sorts():
    assert str(TopicPartition("orders", 3)) == "orders-3"
    shuffled = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 2)]
    assert sorted(shuffled) == [TopicPartition("a", 2), TopicPartition("a", 10), TopicPartition("b", 0)]


def test_topic_partitions_of_an_assignment_are_sorted():
    assert topic_partitions({"b": (1, 0), "a": (2,), "c": ()}) == [("a", 2), ("b", 0), ("b", 1)]


@given(st.sets(st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 20))))
def test_grouping_by_topic_loses_nothing_and_sorts(partitions):
    grouped = by_topic(list(partitions))
    assert topic_partitions(grouped) == sorted(partitions)
    assert list(grouped) == sorted(grouped)


@pytest.mark.parametrize("value", [Generation(1, "m", "range"), CommittedOffset(5)])
def test_generation_and_committed_offset_are_immutable_values(value):
    with pytest.raises(AttributeError):
        setattr(value, value.__slots__[0], 2)
    assert value == pickle.loads(pickle.dumps(value))


def columns(*offsets: int) -> MessageColumns:
    """Return columns with the messages of `batch`."""
    count = len(offsets)
    return MessageColumns(
        topic="orders",
        partition=3,
        timestamp_type=MESSAGE.timestamp_type,
        leader_epoch=MESSAGE.leader_epoch,
        offsets=offsets,
        timestamps=(MESSAGE.timestamp,) * count,
        keys=(MESSAGE.key,) * count,
        values=(MESSAGE.value,) * count,
        headers=(MESSAGE.headers,) * count,
    )


def test_columns_are_a_sequence_of_messages():
    held = columns(4, 6, 7)
    messages = list(batch(4, 6, 7, next_offset=8))
    assert list(held) == messages
    assert len(held) == 3
    assert [held[0], held[1], held[-1]] == [messages[0], messages[1], messages[-1]]
    assert list(held[1:]) == messages[1:]
    assert messages[1] in held
    assert not columns()
    with pytest.raises(IndexError):
        held[3]


def test_batch_of_columns_equals_one_of_messages():
    rows, held = batch(4, 6, 7, next_offset=9), MessageBatch("orders", 3, columns(4, 6, 7), 9)
    assert list(held) == list(rows)
    assert (held.first_offset, held.last_offset, len(held)) == (4, 7, 3)
    assert held.to_arrow().equals(rows.to_arrow(), check_metadata=True)
    assert MessageBatch("orders", 3, held.messages[2:], 9).to_arrow().equals(rows.to_arrow()[2:])


def test_replace_changes_only_the_given_fields():
    assert MESSAGE.replace(value=b"v", key=None) == replace(MESSAGE, value=b"v", key=None)
    with pytest.raises(TypeError):
        MESSAGE.replace(vaule=b"v")
