"""The group APIs on the wire. The coordinator's own rules are tested beside it; here: versions, hand-over, faults."""

from typing import Any

import pytest
from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from sarameya.error_codes import ErrorCode
from sarameya.protocol.offsets_partition import partition_for
from tests.embedded.api_kit import ApiKit, request

GROUP = "landers"


@pytest.fixture
def kit() -> ApiKit:
    return ApiKit({"orders": 2}, brokers=3)


@pytest.fixture
def coordinator(kit: ApiKit) -> int:
    return kit.cluster.coordinator_node(GROUP).id


def join(member_id: str = "", *, version: int = 9, instance: str | None = None, timeout: int = 10_000) -> Any:
    return request(
        JoinGroupRequest,
        version,
        group_id=GROUP,
        session_timeout_ms=timeout,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"subscription"}],
        reason="test",
    )


def sync(member_id: str, generation: int = 1, assignments: dict[str, bytes] | None = None) -> Any:
    return request(
        SyncGroupRequest,
        5,
        group_id=GROUP,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": to, "assignment": share} for to, share in (assignments or {}).items()],
    )


def heartbeat(member_id: str, generation: int = 1) -> Any:
    return request(HeartbeatRequest, 4, group_id=GROUP, generation_id=generation, member_id=member_id)


def commit(offset: int, *, topic: str = "orders", partition: int = 0, version: int = 9, **fields: Any) -> Any:
    return request(
        OffsetCommitRequest,
        version,
        group_id=GROUP,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": 3,
                        "committed_metadata": "note",
                    }
                ],
            }
        ],
        **({"generation_id_or_member_epoch": -1, "member_id": ""} | fields),
    )


def committed(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def start_member(kit: ApiKit, coordinator: int) -> str:
    """A group of one, Stable in generation 1."""
    member_id = str(kit.answer(join(), coordinator).member_id)
    kit.answer(join(member_id), coordinator)
    kit.answer(sync(member_id, 1, {member_id: b"all of it"}), coordinator)
    return member_id


class TestMembership:
    def test_a_member_joins_syncs_beats_and_leaves(self, kit: ApiKit, coordinator: int) -> None:
        first = kit.answer(join(), coordinator)
        assert (first.error_code, bool(first.member_id)) == (ErrorCode.MEMBER_ID_REQUIRED, True)
        joined = kit.answer(join(first.member_id), coordinator)
        assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, first.member_id)
        assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
        assert [(m.member_id, m.metadata) for m in joined.members] == [(first.member_id, b"subscription")]
        synced = kit.answer(sync(first.member_id, 1, {first.member_id: b"share"}), coordinator)
        assert (synced.error_code, synced.assignment) == (0, b"share")
        assert kit.answer(heartbeat(first.member_id), coordinator).error_code == ErrorCode.NONE
        leave = request(LeaveGroupRequest, 5, group_id=GROUP, members=[{"member_id": first.member_id}])
        left = kit.answer(leave, coordinator)
        assert (left.error_code, [(m.member_id, m.error_code) for m in left.members]) == (0, [(first.member_id, 0)])
        assert kit.answer(heartbeat(first.member_id), coordinator).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_join_is_held_until_the_others_have_joined(self, kit: ApiKit, coordinator: int) -> None:
        one = start_member(kit, coordinator)
        two = kit.answer(join(), coordinator).member_id
        held = kit.ask(join(two), coordinator)
        assert held == []
        assert kit.answer(heartbeat(one), coordinator).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        leader = kit.answer(join(one), coordinator)
        (follower,) = held
        assert (leader.generation_id, follower.generation_id) == (2, 2)
        assert (len(leader.members), len(follower.members)) == (2, 0)

    def test_a_sync_is_held_until_the_leader_has_assigned(self, kit: ApiKit, coordinator: int) -> None:
        one = start_member(kit, coordinator)
        two = kit.answer(join(), coordinator).member_id
        held_join = kit.ask(join(two), coordinator)
        kit.answer(join(one), coordinator)
        assert len(held_join) == 1
        held = kit.ask(sync(two, 2), coordinator)
        assert held == []
        kit.answer(sync(one, 2, {one: b"1", two: b"2"}), coordinator)
        assert [answer.assignment for answer in held] == [b"2"]

    def test_a_member_not_heard_of_is_expelled_by_the_cluster_s_timer(self, kit: ApiKit, coordinator: int) -> None:
        member_id = start_member(kit, coordinator)
        kit.sleep(9.9)
        assert kit.answer(heartbeat(member_id), coordinator).error_code == ErrorCode.NONE
        kit.sleep(10)
        assert kit.answer(heartbeat(member_id), coordinator).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_version_zero_joins_at_once_and_has_its_session_timeout_to_join_again(
        self, kit: ApiKit, coordinator: int
    ) -> None:
        joined = kit.answer(join(version=0), coordinator)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
        kit.answer(sync(joined.member_id, 1, {joined.member_id: b""}), coordinator)
        held = kit.ask(join(version=0, timeout=20_000), coordinator)
        kit.sleep(9.9)
        assert held == []
        kit.sleep(0.2)
        assert [answer.generation_id for answer in held] == [2]

    @pytest.mark.parametrize(("version", "none_chosen"), [(6, ""), (7, None)])
    def test_no_protocol_chosen_is_null_only_from_version_seven_on(
        self, kit: ApiKit, coordinator: int, version: int, none_chosen: str | None
    ) -> None:
        refused = kit.answer(join("who", version=version), coordinator)
        assert (refused.error_code, refused.protocol_name) == (ErrorCode.UNKNOWN_MEMBER_ID, none_chosen)

    def test_before_version_three_a_leave_has_one_error(self, kit: ApiKit, coordinator: int) -> None:
        leave = request(LeaveGroupRequest, 2, group_id=GROUP, member_id="nobody")
        assert kit.answer(leave, coordinator).error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestOffsets:
    def test_a_commit_comes_back_with_its_metadata_and_epoch(self, kit: ApiKit, coordinator: int) -> None:
        assert committed(kit.answer(commit(41), coordinator)) == ErrorCode.NONE
        topics = [{"name": "orders", "partition_indexes": [0, 1]}]
        for version in (7, 8):
            ask = request(
                OffsetFetchRequest,
                version,
                group_id=GROUP,
                topics=topics,
                groups=[{"group_id": GROUP, "topics": topics}],
            )
            answer = kit.answer(ask, coordinator)
            (topic,) = answer.topics if version < 8 else answer.groups[0].topics
            found = [(p.committed_offset, p.metadata, p.committed_leader_epoch, p.error_code) for p in topic.partitions]
            assert found == [(41, "note", 3, 0), (-1, "", -1, 0)]

    def test_asked_for_all_only_what_is_committed_comes(self, kit: ApiKit, coordinator: int) -> None:
        kit.answer(commit(5, partition=1), coordinator)
        (topic,) = kit.answer(request(OffsetFetchRequest, 2, group_id=GROUP, topics=None), coordinator).topics
        assert [(p.partition_index, p.committed_offset) for p in topic.partitions] == [(1, 5)]

    @pytest.mark.parametrize(("topic", "partition"), [("unknown", 0), ("orders", 2)])
    def test_a_commit_for_what_does_not_exist_is_refused(
        self, kit: ApiKit, coordinator: int, topic: str, partition: int
    ) -> None:
        answer = kit.answer(commit(1, topic=topic, partition=partition), coordinator)
        assert committed(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_commit_of_another_generation_is_refused(self, kit: ApiKit, coordinator: int) -> None:
        member_id = start_member(kit, coordinator)
        fields = {"member_id": member_id, "generation_id_or_member_epoch": 0}
        assert committed(kit.answer(commit(1, **fields), coordinator)) == ErrorCode.ILLEGAL_GENERATION
        fields["generation_id_or_member_epoch"] = 1
        assert committed(kit.answer(commit(1, **fields), coordinator)) == ErrorCode.NONE

    @pytest.mark.parametrize(
        ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    def test_a_generation_of_no_group_is_called_what_the_version_knows(
        self, kit: ApiKit, coordinator: int, version: int, code: ErrorCode
    ) -> None:
        ask = commit(1, version=version, member_id="m", generation_id_or_member_epoch=4)
        assert committed(kit.answer(ask, coordinator)) == code

    def test_commits_can_be_deleted(self, kit: ApiKit, coordinator: int) -> None:
        kit.answer(commit(5), coordinator)
        topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
        answer = kit.answer(request(OffsetDeleteRequest, 0, group_id=GROUP, topics=topics), coordinator)
        assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
        assert kit.answer(request(OffsetFetchRequest, 2, group_id=GROUP, topics=None), coordinator).topics == []


class TestAdministration:
    def test_a_group_is_described_and_listed_where_it_is_coordinated(self, kit: ApiKit, coordinator: int) -> None:
        member_id = start_member(kit, coordinator)
        (group,) = kit.answer(request(DescribeGroupsRequest, 5, groups=[GROUP]), coordinator).groups
        assert (group.error_code, group.group_state, group.protocol_data) == (0, "Stable", "range")
        (member,) = group.members
        assert (member.member_id, member.client_id, member.client_host) == (member_id, "kit", "/kit")
        assert (member.member_metadata, member.member_assignment) == (b"subscription", b"all of it")
        listed = [kit.answer(request(ListGroupsRequest, 4, states_filter=[]), node).groups for node in range(3)]
        assert [[g.group_id for g in groups] for groups in listed] == [
            [GROUP] if node == coordinator else [] for node in range(3)
        ]

    @pytest.mark.parametrize(
        ("states", "found"), [(["stable"], 1), (["Empty", "Stable"], 1), (["Dead"], 0), (["X"], 0)]
    )
    def test_groups_are_listed_by_state(self, kit: ApiKit, coordinator: int, states: list[str], found: int) -> None:
        start_member(kit, coordinator)
        assert len(kit.answer(request(ListGroupsRequest, 4, states_filter=states), coordinator).groups) == found

    def test_a_group_nobody_knows_is_dead(self, kit: ApiKit, coordinator: int) -> None:
        (group,) = kit.answer(request(DescribeGroupsRequest, 5, groups=[GROUP]), coordinator).groups
        assert (group.error_code, group.group_state, group.members) == (0, "Dead", [])

    def test_only_an_empty_group_is_deleted(self, kit: ApiKit, coordinator: int) -> None:
        member_id = start_member(kit, coordinator)
        delete = request(DeleteGroupsRequest, 2, groups_names=[GROUP])
        assert kit.answer(delete, coordinator).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        kit.answer(request(LeaveGroupRequest, 0, group_id=GROUP, member_id=member_id), coordinator)
        assert kit.answer(delete, coordinator).results[0].error_code == ErrorCode.NONE


class TestCoordinators:
    def find(self, kit: ApiKit, version: int, key_type: int = 0) -> tuple[int, int, str, int]:
        ask = request(FindCoordinatorRequest, version, key=GROUP, key_type=key_type, coordinator_keys=[GROUP])
        answer = kit.answer(ask)
        found = answer if version < 4 else answer.coordinators[0]
        return found.error_code, found.node_id, found.host, found.port

    @pytest.mark.parametrize("version", [0, 3, 4])
    def test_the_leader_of_the_groups_partition_coordinates(self, kit: ApiKit, version: int) -> None:
        node = partition_for(GROUP, 50) % 3
        assert self.find(kit, version) == (0, node, f"broker-{node}", 9092 + node)

    @pytest.mark.parametrize("version", [3, 4])
    def test_transactions_have_no_coordinator(self, kit: ApiKit, version: int) -> None:
        assert self.find(kit, version, key_type=1) == (ErrorCode.INVALID_REQUEST, -1, "", -1)

    def test_other_brokers_refuse_the_group(self, kit: ApiKit, coordinator: int) -> None:
        other = (coordinator + 1) % 3
        assert kit.answer(join(), other).error_code == ErrorCode.NOT_COORDINATOR
        assert kit.answer(heartbeat("m"), other).error_code == ErrorCode.NOT_COORDINATOR
        assert committed(kit.answer(commit(1), other)) == ErrorCode.NOT_COORDINATOR

    def move(self, kit: ApiKit, to: int) -> None:
        number = kit.cluster.offsets_partition(GROUP).topic_partition.partition
        kit.cluster.move_leader("__consumer_offsets", number, to, kit.now)

    def test_a_group_that_moves_keeps_members_generation_and_commits(self, kit: ApiKit, coordinator: int) -> None:
        member_id = start_member(kit, coordinator)
        kit.answer(commit(7, member_id=member_id, generation_id_or_member_epoch=1), coordinator)
        other = (coordinator + 1) % 3
        self.move(kit, other)
        assert self.find(kit, 4)[1] == other
        assert kit.answer(heartbeat(member_id), coordinator).error_code == ErrorCode.NOT_COORDINATOR
        assert kit.answer(heartbeat(member_id), other).error_code == ErrorCode.NONE
        (topic,) = kit.answer(request(OffsetFetchRequest, 2, group_id=GROUP, topics=None), other).topics
        assert topic.partitions[0].committed_offset == 7

    def test_a_held_join_is_sent_to_the_new_coordinator(self, kit: ApiKit, coordinator: int) -> None:
        start_member(kit, coordinator)
        held = kit.ask(join(kit.answer(join(), coordinator).member_id), coordinator)
        self.move(kit, (coordinator + 1) % 3)
        assert [answer.error_code for answer in held] == [ErrorCode.NOT_COORDINATOR]

    def test_a_group_outlives_its_coordinator(self, kit: ApiKit, coordinator: int) -> None:
        member_id = start_member(kit, coordinator)
        kit.cluster.node_down(coordinator, kit.now)
        heir = kit.cluster.coordinator_node(GROUP).id
        assert heir != coordinator
        assert kit.answer(heartbeat(member_id), heir).error_code == ErrorCode.NONE

    def test_a_group_rests_while_no_broker_is_up_and_no_session_runs_out(self) -> None:
        kit = ApiKit({"orders": 1})
        member_id = start_member(kit, 0)
        (node,) = kit.cluster.nodes
        kit.cluster.node_down(0, kit.now)
        assert self.find(kit, 4)[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
        kit.sleep(3600)
        kit.cluster.node_up(node, kit.now)
        assert kit.answer(heartbeat(member_id), 0).error_code == ErrorCode.NONE
        kit.sleep(10)
        assert kit.answer(heartbeat(member_id), 0).error_code == ErrorCode.UNKNOWN_MEMBER_ID
