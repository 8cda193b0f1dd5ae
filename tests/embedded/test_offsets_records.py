"""The records of `__consumer_offsets`: in Kafka's formats, and read back unchanged."""

from __future__ import annotations

from contextlib import suppress

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.embedded.groups.model.stored import GroupRecord, MemberRecord, StoredOffset
from sarameya.embedded.offsets_topic.offsets_records import (
    GroupKey,
    OffsetKey,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group,
    read_key,
    read_offset,
)
from sarameya.model import CommittedOffset, TopicPartition

ORDERS = TopicPartition("orders", 3)
NOW = 1_700_000_000.0
OFFSET = StoredOffset(CommittedOffset(41, "hi", 2), NOW)
EXPIRING = StoredOffset(CommittedOffset(41, "hi"), NOW, NOW + 1)
MEMBER = MemberRecord(
    member_id="m-1",
    group_instance_id=None,
    client_id="c",
    client_host="/h",
    session_timeout=10.0,
    rebalance_timeout=60.5,
    subscription=b"sub",
    assignment=b"",
)
GROUP = GroupRecord(7, "consumer", "range", "m-1", (MEMBER,), NOW)
EMPTY_GROUP = attrs.evolve(GROUP, protocol_name=None, leader=None, members=(), state_time=None)

# Written out by hand, field by field, from Kafka's message definitions.
FORMATS = [
    (offset_key("g", ORDERS), "0001 0001 67 0006 6f7264657273 00000003"),
    (offset_value(OFFSET), "0003 0000000000000029 00000002 0002 6869 0000018bcfe56800"),
    (offset_value(EXPIRING), "0001 0000000000000029 0002 6869 0000018bcfe56800 0000018bcfe56be8"),
    (group_key("g"), "0002 0001 67"),
    (
        group_value(GROUP),
        "0003 0008 636f6e73756d6572 00000007 0005 72616e6765 0003 6d2d31 0000018bcfe56800 00000001"
        " 0003 6d2d31 ffff 0001 63 0002 2f68 0000ec54 00002710 00000003 737562 00000000",
    ),
    (group_value(EMPTY_GROUP), "0003 0008 636f6e73756d6572 00000007 ffff ffff ffffffffffffffff 00000000"),
]


@pytest.mark.parametrize(("written", "hexadecimal"), FORMATS)
def test_written_record_has_kafkas_format(written: bytes, hexadecimal: str) -> None:
    assert written == bytes.fromhex(hexadecimal)


def test_written_record_is_read_unchanged() -> None:
    assert read_key(offset_key("g", ORDERS)) == OffsetKey("g", ORDERS)
    assert read_key(group_key("g")) == GroupKey("g")
    for offset in (OFFSET, EXPIRING):
        assert read_offset(offset_value(offset)) == offset
    for record in (
        GROUP,
        EMPTY_GROUP,
        attrs.evolve(GROUP, members=(MEMBER, attrs.evolve(MEMBER, group_instance_id="i"))),
    ):
        assert read_group(group_value(record)) == record


@pytest.mark.parametrize(
    ("read", "data"),
    [(read_key, offset_key("g", ORDERS)), (read_offset, offset_value(OFFSET)), (read_group, group_value(GROUP))],
)
def test_truncated_or_too_long_record_is_refused(read: object, data: bytes) -> None:
    assert callable(read)
    for end in range(len(data)):
        with pytest.raises(ValueError, match="incomplete"):
            read(data[:end])
    with pytest.raises(ValueError, match="after the record's last field"):
        read(data + b"?")


def test_record_of_an_unknown_version_is_refused() -> None:
    for read, what in ((read_key, "version 9"), (read_offset, "version 9"), (read_group, "version 9")):
        with pytest.raises(ValueError, match=what):
            read(b"\x00\x09")  # type: ignore[operator]


@given(st.binary(max_size=80))
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_key, read_offset, read_group):
        with suppress(ValueError):
            read(data)  # type: ignore[operator]
