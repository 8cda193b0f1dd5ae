"""The broker that coordinates a group, and the group after another broker has become its coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import LeaveGroupRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from sarameya.embedded.cluster_state import BrokerSettings
from sarameya.embedded.groups.config import CoordinatorConfig
from sarameya.embedded.offsets_topic.offsets_journal import read_groups
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from sarameya.protocol.cluster.offsets_partition import OFFSETS_TOPIC, partition_for
from tests.embedded.api_kit import ApiKit, request
from tests.embedded.group_requests import GROUP, commit, committed, heartbeat, join, start_member, sync

NOT_COORDINATOR, LOADING = ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class Brokers(ApiKit):
    """Three brokers. `here` coordinates the group, and `move` moves it to the next broker."""

    def __init__(self, **groups: Any) -> None:
        super().__init__({"orders": 2}, brokers=3, settings=BrokerSettings(groups=CoordinatorConfig(**groups)))

    @property
    def here(self) -> int:
        return self.cluster.coordinator_node(GROUP).id

    def move(self, load_time: float | None = None) -> int:
        there = (self.here + 1) % 3
        number = self.cluster.offsets_partition(GROUP).topic_partition.partition
        self.cluster.move_leader(OFFSETS_TOPIC, number, there, self.now, load_time)
        return there

    def describe(self) -> Any:
        (group,) = self.answer(request(DescribeGroupsRequest, 5, groups=[GROUP]), self.here).groups
        return group

    def fetched(self) -> dict[TopicPartition, int]:
        topics = self.answer(request(OffsetFetchRequest, 2, group_id=GROUP, topics=None), self.here).topics
        return {
            TopicPartition(topic.name, p.partition_index): p.committed_offset
            for topic in topics
            for p in topic.partitions
        }

    def find(self, version: int, key_type: int = 0) -> tuple[int, int, str, int]:
        find = request(FindCoordinatorRequest, version, key=GROUP, key_type=key_type, coordinator_keys=[GROUP])
        answer = self.answer(find)
        found = answer if version < 4 else answer.coordinators[0]
        return found.error_code, found.node_id, found.host, found.port

    def two_members(self) -> tuple[str, str]:
        """Bring the group to generation 2, Stable, with two members."""
        first = start_member(self, self.here)
        second = str(self.answer(join(), self.here).member_id)
        self.ask(join(second), self.here)
        self.ask(join(first), self.here)
        self.settle(first, second, generation=2)
        return first, second

    def settle(self, leader: str, *followers: str, generation: int) -> None:
        assignments = {member_id: member_id.encode() for member_id in (leader, *followers)}
        waiting = [self.ask(sync(member_id, generation), self.here) for member_id in followers]
        waiting.append(self.ask(sync(leader, generation, assignments), self.here))
        assert [answer[0].error_code for answer in waiting] == [0] * len(assignments)


@pytest.fixture
def kit() -> Brokers:
    return Brokers()


class TestFindCoordinator:
    @pytest.mark.parametrize("version", [0, 3, 4])
    def test_leader_of_the_groups_partition_coordinates(self, kit: Brokers, version: int) -> None:
        node = partition_for(GROUP, 50) % 3
        assert kit.find(version) == (0, node, f"broker-{node}", 9092 + node)

    @pytest.mark.parametrize("version", [3, 4])
    def test_transactions_have_no_coordinator(self, kit: Brokers, version: int) -> None:
        assert kit.find(version, key_type=1) == (ErrorCode.INVALID_REQUEST, -1, "", -1)

    def test_other_brokers_refuse_the_group(self, kit: Brokers) -> None:
        other = (kit.here + 1) % 3
        assert kit.answer(join(), other).error_code == NOT_COORDINATOR
        assert kit.answer(heartbeat("m"), other).error_code == NOT_COORDINATOR
        assert committed(kit.answer(commit(1), other)) == NOT_COORDINATOR


class TestMoves:
    def test_moved_group_keeps_members_generation_and_commits(self, kit: Brokers) -> None:
        before = kit.here
        member_id = start_member(kit, before)
        kit.answer(commit(7, member_id=member_id, generation_id_or_member_epoch=1), before)
        after = kit.move()
        assert kit.find(4)[1] == after
        assert kit.answer(heartbeat(member_id), before).error_code == NOT_COORDINATOR
        assert kit.answer(heartbeat(member_id), after).error_code == ErrorCode.NONE
        assert kit.fetched() == {TopicPartition("orders", 0): 7}
        assert kit.describe().members[0].member_assignment == b"all of it"

    def test_move_during_a_join_restores_the_last_generation(self, kit: Brokers) -> None:
        first, second = kit.two_members()
        newcomer = kit.ask(join(kit.answer(join(), kit.here).member_id), kit.here)
        held = kit.ask(join(second), kit.here)
        there = kit.move()
        assert [answers[0].error_code for answers in (held, newcomer)] == [NOT_COORDINATOR] * 2
        assert kit.answer(heartbeat(first, 2), there).error_code == ErrorCode.NONE
        # The log does not have the new member: it has to join without an id.
        assert kit.answer(join(newcomer[0].member_id), there).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        third = kit.answer(join(), there).member_id
        joins = [kit.ask(join(member_id), there) for member_id in (third, first, second)]
        assert [answers[0].generation_id for answers in joins] == [3, 3, 3]
        kit.settle(joins[0][0].leader, *{first, second, third} - {joins[0][0].leader}, generation=3)

    def test_move_during_a_sync_forgets_the_unassigned_generation(self, kit: Brokers) -> None:
        first, second = kit.two_members()
        for member_id in (first, second):
            kit.ask(join(member_id), kit.here)
        held = kit.ask(sync(second, 3), kit.here)
        there = kit.move()
        assert held[0].error_code == NOT_COORDINATOR
        assert kit.answer(sync(first, 3, {}), there).error_code == ErrorCode.ILLEGAL_GENERATION
        assert kit.answer(heartbeat(first, 3), there).error_code == ErrorCode.ILLEGAL_GENERATION
        joins = [kit.ask(join(member_id), there) for member_id in (first, second)]
        assert [answers[0].generation_id for answers in joins] == [3, 3]
        kit.settle(first, second, generation=3)

    def test_move_forgets_pending_member_ids(self, kit: Brokers) -> None:
        before = kit.here
        pending = kit.answer(join(), before).member_id
        there = kit.move()
        assert kit.describe().group_state == "Empty", "the group was stored when its first member id was returned"
        assert kit.answer(join(pending), there).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert kit.answer(join(pending), before).error_code == NOT_COORDINATOR
        start_member(kit, there)
        assert kit.describe().group_state == "Stable"

    def test_moved_round_does_not_wait_for_pending_member_ids(self, kit: Brokers) -> None:
        first = start_member(kit, kit.here)
        kit.answer(join(), kit.here)
        held = kit.ask(join(first), kit.here)
        there = kit.move()
        assert held[0].error_code == NOT_COORDINATOR
        assert kit.answer(join(first), there).generation_id == 2

    def test_move_keeps_static_members_and_their_fencing(self, kit: Brokers) -> None:
        old = kit.answer(join(instance="i"), kit.here).member_id
        kit.settle(old, generation=1)
        there = kit.move()
        returned = kit.answer(join(instance="i"), there)
        assert (returned.error_code, returned.generation_id, returned.skip_assignment) == (0, 1, True)
        assert kit.answer(sync(returned.member_id), there).assignment == old.encode()
        assert kit.answer(join(old, instance="i"), there).error_code == ErrorCode.FENCED_INSTANCE_ID
        again = kit.move()
        assert kit.answer(heartbeat(returned.member_id), again).error_code == ErrorCode.NONE

    def test_member_that_left_before_the_move_is_loaded_again(self, kit: Brokers) -> None:
        first, second = kit.two_members()
        kit.answer(request(LeaveGroupRequest, 5, group_id=GROUP, members=[{"member_id": second}]), kit.here)
        kit.move()  # the log does not have the round that followed
        assert {member.member_id for member in kit.describe().members} == {first, second}
        kit.sleep(9)
        kit.answer(heartbeat(first, 2), kit.here)
        kit.sleep(1)
        assert {member.member_id for member in kit.describe().members} == {first}

    def test_group_too_large_for_its_new_coordinator_rebalances(self) -> None:
        kit = Brokers()
        first, _second = kit.two_members()
        small = Brokers(max_size=1)
        small.cluster.offsets_partition(GROUP)
        for batch in kit.cluster.offsets_partition(GROUP).log.batches():
            log = small.cluster.offsets_partition(GROUP).log
            log.append_raw(batch, log.end_offset)
        there = small.move()
        assert small.describe().group_state == "PreparingRebalance"
        assert small.answer(heartbeat(first, 2), there).error_code == ErrorCode.REBALANCE_IN_PROGRESS

    def test_groups_in_other_partitions_do_not_move(self, kit: Brokers) -> None:
        others = [name for name in map(str, range(200)) if kit.cluster.coordinator_node(name).id == kit.here]
        for name in others:
            assert committed(kit.answer(commit(1, group=name), kit.here)) == 0
        before = kit.here
        kit.move()
        number = partition_for(GROUP)
        listed = kit.answer(request(ListGroupsRequest, 4, states_filter=[]), before).groups
        assert {g.group_id for g in listed} == {name for name in others if partition_for(name) != number}


class TestStoppedBrokers:
    def test_group_outlives_its_coordinator(self, kit: Brokers) -> None:
        before = kit.here
        member_id = start_member(kit, before)
        kit.cluster.node_down(before, kit.now)
        assert kit.here != before
        assert kit.answer(heartbeat(member_id), kit.here).error_code == ErrorCode.NONE

    def test_no_session_expires_while_no_broker_is_up(self) -> None:
        kit = ApiKit({"orders": 1})
        member_id = start_member(kit, 0)
        (node,) = kit.cluster.nodes
        kit.cluster.node_down(0, kit.now)
        kit.sleep(3600)
        kit.cluster.node_up(node, kit.now)
        assert kit.answer(heartbeat(member_id), 0).error_code == ErrorCode.NONE
        kit.sleep(10)
        assert kit.answer(heartbeat(member_id), 0).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_group_has_no_coordinator_while_no_broker_is_up(self) -> None:
        kit = Brokers()
        kit.cluster.offsets_partition(GROUP)
        for node in kit.cluster.nodes:
            kit.cluster.node_down(node.id, kit.now)
        assert kit.find(4)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE


class TestLoading:
    """A coordinator that is loading groups from their log."""

    @pytest.mark.parametrize(
        ("send", "code"),
        [
            (lambda kit, m: kit.answer(join(m), kit.here).error_code, LOADING),
            (lambda kit, m: kit.answer(sync(m), kit.here).error_code, LOADING),
            (lambda kit, m: kit.answer(heartbeat(m), kit.here).error_code, ErrorCode.NONE),
            (lambda kit, m: committed(kit.answer(commit(8), kit.here)), LOADING),
            (lambda kit, m: kit.describe().error_code, LOADING),
        ],
        ids=["join", "sync", "heartbeat", "commit", "describe"],
    )
    def test_loading_coordinator_refuses_all_but_heartbeats(
        self, kit: Brokers, send: Callable[[Brokers, str], int], code: ErrorCode
    ) -> None:
        member_id = start_member(kit, kit.here)
        kit.move(load_time=5.0)
        assert send(kit, member_id) == code
        kit.sleep(4.999)
        assert send(kit, member_id) == code
        kit.sleep(0.001)
        assert send(kit, member_id) != LOADING

    def test_loading_coordinator_lists_no_groups(self, kit: Brokers) -> None:
        start_member(kit, kit.here)
        there = kit.move(load_time=5.0)
        for node, code in ((there, LOADING), ((there + 1) % 3, ErrorCode.NONE)):
            assert kit.answer(request(ListGroupsRequest, 4, states_filter=[]), node).error_code == code
        kit.sleep(5)
        (listed,) = kit.answer(request(ListGroupsRequest, 4, states_filter=[]), there).groups
        assert listed.group_id == GROUP

    def test_sessions_count_from_the_end_of_loading(self, kit: Brokers) -> None:
        member_id = start_member(kit, kit.here)
        kit.move(load_time=60.0)
        kit.sleep(60)
        assert kit.describe().group_state == "Stable"
        kit.sleep(9)
        assert kit.answer(heartbeat(member_id), kit.here).error_code == ErrorCode.NONE
        kit.sleep(10)
        assert kit.describe().group_state == "Empty"

    def test_load_time_setting_applies_to_every_move(self) -> None:
        kit = Brokers(load_time=2.0)
        member_id = start_member(kit, kit.here)
        kit.cluster.node_down(kit.here, kit.now)
        assert kit.answer(join(member_id), kit.here).error_code == LOADING
        kit.sleep(2)
        assert kit.answer(join(member_id), kit.here).generation_id == 2

    def test_move_during_loading_starts_loading_elsewhere(self, kit: Brokers) -> None:
        member_id = start_member(kit, kit.here)
        there = kit.move(load_time=5.0)
        kit.sleep(3)
        kit.move(load_time=5.0)
        kit.sleep(3)
        assert kit.answer(join(member_id), there).error_code == NOT_COORDINATOR
        assert kit.answer(join(member_id), kit.here).error_code == LOADING
        kit.sleep(2)
        assert kit.answer(join(member_id), kit.here).generation_id == 2
        assert kit.cluster.coordinator(there).list_groups() == []


class TestLog:
    """A new coordinator knows only `__consumer_offsets`."""

    def held(self, kit: Brokers) -> list[str]:
        partition = kit.cluster.offsets_partition(GROUP)
        return [image.group_id for image in read_groups(partition.topic_partition, partition.log.batches())]

    def test_deleted_group_is_not_loaded(self, kit: Brokers) -> None:
        kit.answer(commit(7), kit.here)
        assert self.held(kit) == [GROUP]
        kit.cluster.coordinator(kit.here).delete_group(GROUP, kit.now)
        assert self.held(kit) == []
        kit.move()
        assert kit.describe().group_state == "Dead"

    def test_commit_truncated_from_the_log_is_lost(self, kit: Brokers) -> None:
        kit.answer(commit(7), kit.here)
        kit.answer(commit(8), kit.here)
        log = kit.cluster.offsets_partition(GROUP).log
        log.truncate(log.end_offset - 1)  # as an unclean election does
        kit.move()
        assert kit.fetched() == {TopicPartition("orders", 0): 7}

    def test_deleted_topic_loses_its_commits(self, kit: Brokers) -> None:
        kit.cluster.create_topic("others", 1)
        kit.answer(commit(7), kit.here)
        kit.answer(commit(9, topic="others"), kit.here)
        kit.cluster.delete_topic("orders", kit.now)
        assert kit.fetched() == {TopicPartition("others", 0): 9}
        kit.cluster.create_topic("orders", 2)
        kit.move()
        assert kit.fetched() == {TopicPartition("others", 0): 9}, "the tombstone is in the log"

    def test_log_stays_short_over_many_commits(self, kit: Brokers) -> None:
        member_id = start_member(kit, kit.here)
        for offset in range(5000):
            kit.answer(commit(offset, member_id=member_id, generation_id_or_member_epoch=1), kit.here)
        log = kit.cluster.offsets_partition(GROUP).log
        assert log.end_offset > 5000
        assert log.batch_count < 600
        kit.move()
        assert kit.fetched() == {TopicPartition("orders", 0): 4999}
        assert kit.describe().group_state == "Stable"

    @pytest.mark.parametrize(("version", "milliseconds", "kept"), [(4, 60_000, False), (4, -1, True), (5, None, True)])
    def test_commit_sets_its_retention_only_in_old_versions(
        self, kit: Brokers, version: int, milliseconds: int | None, kept: bool
    ) -> None:
        fields = {} if milliseconds is None else {"retention_time_ms": milliseconds}
        assert committed(kit.answer(commit(7, version=version, **fields), kit.here)) == 0
        kit.move()
        kit.sleep(3600)
        assert kit.fetched() == ({TopicPartition("orders", 0): 7} if kept else {})
