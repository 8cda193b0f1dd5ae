"""`__consumer_offsets`: what coordinators write is what Kafka's own tools could read."""

from typing import Any

import attrs

from sarameya.embedded.groups.messages import GroupRecord, MemberRecord
from sarameya.embedded.offsets_journal import OffsetsJournal, group_key, group_value, offset_key, offset_value
from sarameya.embedded.partition_log import PartitionLog
from sarameya.embedded.topics import Partition
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.protocol.records import decode, split

ORDERS = TopicPartition("orders", 3)
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
RECORD = GroupRecord(generation=7, protocol_type="consumer", protocol_name="range", leader="m-1", members=(MEMBER,))

# Written out by hand, field by field, from Kafka's message definitions.
OFFSET_KEY = "0001 0001 67 0006 6f7264657273 00000003"
OFFSET_VALUE = "0003 0000000000000029 00000002 0002 6869 0000018bcfe56800"
GROUP_KEY = "0002 0001 67"
GROUP_VALUE = (
    "0003 0008 636f6e73756d6572 00000007 0005 72616e6765 0003 6d2d31 0000018bcfe56800 00000001"
    " 0003 6d2d31 ffff 0001 63 0002 2f68 0000ec54 00002710 00000003 737562 00000000"
)


def test_the_formats_are_kafkas() -> None:
    now = 1_700_000_000_000
    assert offset_key("g", ORDERS) == bytes.fromhex(OFFSET_KEY)
    assert offset_value(CommittedOffset(41, "hi", 2), now) == bytes.fromhex(OFFSET_VALUE)
    assert group_key("g") == bytes.fromhex(GROUP_KEY)
    assert group_value(RECORD, now) == bytes.fromhex(GROUP_VALUE)


def test_a_group_without_a_leader_has_nulls() -> None:
    empty = attrs.evolve(RECORD, protocol_name=None, leader=None, members=())
    assert group_value(empty, 0).hex() == "00030008636f6e73756d657200000007ffffffff000000000000000000000000"


class TestJournal:
    def written(self, *changes: Any) -> list[list[tuple[bytes | None, bytes | None, int]]]:
        """Key, value, timestamp of each record, batch by batch, of what the changes wrote."""
        partition = Partition(PartitionLog(TopicPartition("__consumer_offsets", 0)), leader=0)
        journal = OffsetsJournal(lambda group: partition, lambda p, batch: p.log.append(batch), lambda: 1.5)
        for change in changes:
            change(journal)
        return [
            [(m.key, m.value, m.timestamp) for raw in split(data, ORDERS, 0) for m in decode(raw, ORDERS)]
            for data in partition.log.batches()
        ]

    def test_one_batch_for_all_partitions_of_a_commit(self) -> None:
        offset = CommittedOffset(1)
        other = TopicPartition("orders", 4)
        (batch,) = self.written(lambda journal: journal.store_offsets("g", {ORDERS: offset, other: None}))
        assert batch == [
            (offset_key("g", ORDERS), offset_value(offset, 1500), 1500),
            (offset_key("g", other), None, 1500),
        ]

    def test_a_group_and_its_tombstone(self) -> None:
        batches = self.written(
            lambda journal: journal.store_group("g", RECORD), lambda journal: journal.store_group("g", None)
        )
        assert batches == [[(group_key("g"), group_value(RECORD, 1500), 1500)], [(group_key("g"), None, 1500)]]

    def test_nothing_changed_is_nothing_written(self) -> None:
        assert self.written(lambda journal: journal.store_offsets("g", {})) == []
