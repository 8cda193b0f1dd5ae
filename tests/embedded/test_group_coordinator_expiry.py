"""Expiry of commits and groups (KIP-211): by the time of day, at every check interval."""

from __future__ import annotations

import struct

import pytest

from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.embedded.groups.model.messages import CommitRequest
from sarameya.embedded.groups.model.stored import GroupImage, GroupRecord, StoredOffset
from sarameya.error_codes import ErrorCode
from sarameya.model import CommittedOffset, TopicPartition
from tests.embedded.coordinator_kit import GROUP, SESSION, T0, WALL_TIME, Kit, protocols

RETENTION, CHECK = 1000.0, 100.0
OTHER = TopicPartition("other", 0)


def subscription_to(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">i", -1)


READS_T = protocols("range", metadata=subscription_to("t"))


def kit_with(retention: float = RETENTION) -> Kit:
    return Kit(CoordinatorConfig(offsets_retention=retention, offsets_retention_check_interval=CHECK))


def commit(kit: Kit, *partitions: TopicPartition, member_id: str = "", retention: float | None = None) -> None:
    generation = kit.group.generation if member_id else -1
    request = CommitRequest(
        GROUP, dict.fromkeys(partitions, CommittedOffset(5)), generation, member_id, retention=retention
    )
    assert set(kit.coordinator.commit(request, kit.now).errors.values()) == {ErrorCode.NONE}


def keep_alive(kit: Kit, *member_ids: str, seconds: float) -> None:
    """Advance the clock while these members send heartbeats."""
    for _ in range(int(seconds / (SESSION / 2))):
        for member_id in member_ids:
            assert kit.heartbeat(member_id) is ErrorCode.NONE
        kit.advance(SESSION / 2)


def left_group(kit: Kit) -> None:
    """Create a group that has committed for T0 and whose members have all left."""
    (member_id,) = kit.stable(1, protocols=READS_T)
    commit(kit, T0, member_id=member_id)
    kit.leave(member_id)


# --- a group that only commits -------------------------------------------------------------------------------------


def test_commits_of_a_simple_consumer_are_kept_from_each_commit() -> None:
    kit = kit_with()
    commit(kit, T0)
    kit.advance(500)
    commit(kit, OTHER)
    kit.advance(RETENTION - 500 - CHECK)
    assert set(kit.committed()) == {T0, OTHER}
    kit.advance(CHECK)
    assert set(kit.committed()) == {OTHER}
    kit.advance(500)
    assert not kit.exists


def test_repeated_commit_is_kept_from_the_last_one() -> None:
    kit = kit_with()
    commit(kit, T0)
    kit.advance(RETENTION - 1)
    commit(kit, T0)
    kit.advance(RETENTION - CHECK)
    assert set(kit.committed()) == {T0}


# --- a group that all members have left ----------------------------------------------------------------------------


def test_retention_of_an_empty_group_counts_from_the_last_leave() -> None:
    kit = kit_with()
    (member_id,) = kit.stable(1, protocols=READS_T)
    commit(kit, T0, member_id=member_id)
    keep_alive(kit, member_id, seconds=2 * RETENTION)
    kit.leave(member_id)
    kit.advance(RETENTION - CHECK)
    assert set(kit.committed()) == {T0}
    kit.advance(CHECK)
    assert not kit.exists


def test_group_with_expired_commits_is_deleted_with_tombstones() -> None:
    kit = kit_with()
    left_group(kit)
    kit.advance(RETENTION)
    assert kit.coordinator.describe(GROUP).state is GroupState.DEAD
    assert (kit.offsets_log[-1], kit.groups_log[-1]) == ({T0: None}, None)
    assert kit.coordinator.next_deadline() is None


def test_join_within_the_retention_keeps_the_commits() -> None:
    kit = kit_with()
    left_group(kit)
    kit.advance(RETENTION - 1)
    (member_id,) = kit.stable(1, protocols=READS_T)
    keep_alive(kit, member_id, seconds=RETENTION)
    assert set(kit.committed()) == {T0}
    kit.leave(member_id)
    kit.advance(RETENTION - CHECK)
    assert set(kit.committed()) == {T0}, "the retention starts again when the last member leaves"


def test_time_of_the_last_leave_survives_a_move() -> None:
    kit = kit_with()
    left_group(kit)
    kit.advance(600)
    image = kit.coordinator.unload(GROUP, kit.now)
    assert image is not None
    kit.coordinator.load(image, kit.now)
    kit.advance(300)
    assert kit.exists
    kit.advance(100)
    assert not kit.exists


def test_group_without_a_leave_time_is_kept_from_each_commit() -> None:
    kit = kit_with()
    record = GroupRecord(3, "consumer", None, None, ())  # GroupMetadataValue before v2 had no time
    offsets = {
        T0: StoredOffset(CommittedOffset(5), WALL_TIME - 500),
        OTHER: StoredOffset(CommittedOffset(5), WALL_TIME),
    }
    kit.coordinator.load(GroupImage(GROUP, record, offsets), kit.now)
    kit.advance(500)
    assert set(kit.committed()) == {OTHER}


# --- a group with members ------------------------------------------------------------------------------------------


def test_commit_of_an_unsubscribed_topic_expires() -> None:
    kit = kit_with()
    (member_id,) = kit.stable(1, protocols=READS_T)
    commit(kit, T0, OTHER, member_id=member_id)
    keep_alive(kit, member_id, seconds=RETENTION - CHECK)
    assert set(kit.committed()) == {T0, OTHER}
    keep_alive(kit, member_id, seconds=CHECK)
    assert set(kit.committed()) == {T0}
    keep_alive(kit, member_id, seconds=10 * RETENTION)
    assert set(kit.committed()) == {T0}, "commits of a subscribed topic are kept"
    assert kit.state is GroupState.STABLE


def test_commit_of_a_topic_no_longer_subscribed_expires() -> None:
    kit = kit_with()
    (member_id,) = kit.stable(1, protocols=READS_T)
    commit(kit, T0, member_id=member_id)
    kit.join(member_id, protocols=protocols("range", metadata=subscription_to("other")))
    kit.settle([member_id])
    keep_alive(kit, member_id, seconds=RETENTION)
    assert kit.committed() == {}
    assert kit.state is GroupState.STABLE, "a group with members is not deleted with its commits"


def test_commits_of_any_members_topics_are_kept() -> None:
    kit = kit_with()
    first, reply = kit.join_new(protocols=READS_T)
    assert reply.is_answered
    second, _ = kit.join_new(protocols=protocols("range", metadata=subscription_to("other")))
    kit.join(first, protocols=READS_T)
    kit.settle([first, second])
    commit(kit, T0, OTHER, member_id=first)
    keep_alive(kit, first, second, seconds=2 * RETENTION)
    assert set(kit.committed()) == {T0, OTHER}


@pytest.mark.parametrize(
    "fields",
    [
        {"protocols": protocols("range", metadata=b"no subscription")},
        {"protocol_type": "connect", "protocols": protocols("range", metadata=subscription_to("other"))},
    ],
    ids=["unreadable subscription", "other protocol type"],
)
def test_nothing_expires_while_subscriptions_are_unknown(fields: dict[str, object]) -> None:
    kit = kit_with()
    (member_id,) = kit.stable(1, **fields)
    commit(kit, T0, OTHER, member_id=member_id)
    keep_alive(kit, member_id, seconds=2 * RETENTION)
    assert set(kit.committed()) == {T0, OTHER}


def test_nothing_expires_during_a_rebalance() -> None:
    kit = kit_with(retention=200)
    first, second = kit.stable(2, protocols=READS_T, rebalance_timeout=600.0)
    commit(kit, OTHER, member_id=first)
    kit.join(first, protocols=READS_T, rebalance_timeout=600.0)
    for _ in range(60):
        assert kit.heartbeat(second) is ErrorCode.REBALANCE_IN_PROGRESS
        kit.advance(5)
    assert kit.state is GroupState.PREPARING_REBALANCE
    assert set(kit.committed()) == {OTHER}


# --- a commit with a retention of its own (OffsetCommit v2 to v4) --------------------------------------------------


def test_commit_with_its_own_retention_expires_by_it() -> None:
    kit = kit_with()
    commit(kit, T0, retention=50.0)
    commit(kit, OTHER, retention=5000.0)
    kit.advance(CHECK)
    assert set(kit.committed()) == {OTHER}
    kit.advance(2 * RETENTION)
    assert set(kit.committed()) == {OTHER}


def test_commit_with_its_own_retention_is_kept_while_subscribed() -> None:
    kit = kit_with()
    (member_id,) = kit.stable(1, protocols=READS_T)
    commit(kit, T0, member_id=member_id, retention=50.0)
    keep_alive(kit, member_id, seconds=RETENTION)
    assert set(kit.committed()) == {T0}


# --- groups without commits ----------------------------------------------------------------------------------------


def test_empty_group_without_commits_is_deleted_at_the_next_check() -> None:
    kit = kit_with()
    (member_id,) = kit.stable(1)
    kit.leave(member_id)
    kit.advance(CHECK)
    assert not kit.exists
    assert kit.groups_log[-1] is None
    assert kit.heartbeat(member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_group_with_members_and_without_commits_stays() -> None:
    kit = kit_with()
    (member_id,) = kit.stable(1)
    keep_alive(kit, member_id, seconds=RETENTION)
    assert kit.state is GroupState.STABLE


def test_coordinator_without_groups_has_no_deadline() -> None:
    kit = kit_with()
    assert kit.coordinator.next_deadline() is None
    left_group(kit)
    assert kit.coordinator.next_deadline() == CHECK
    kit.coordinator.delete_group(GROUP, kit.now)
    assert kit.coordinator.next_deadline() is None


def test_jump_of_the_wall_clock_expires_commits_only() -> None:
    kit = kit_with()
    (member_id,) = kit.stable(1, protocols=READS_T)
    commit(kit, OTHER, member_id=member_id)
    jumps = kit.time_of_day() + RETENTION
    kit.coordinator._rebalancer.wall_clock = lambda: jumps
    keep_alive(kit, member_id, seconds=CHECK)
    assert kit.committed() == {}
    assert kit.member_ids == [member_id]
