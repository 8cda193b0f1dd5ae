"""The group APIs on the wire: versions, moves, faults. The coordinator's rules have tests of their own."""

import pytest
from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import (
    LeaveGroupRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)

from sarameya.error_codes import ErrorCode
from tests.embedded.api_kit import ApiKit, request
from tests.embedded.group_requests import GROUP, commit, committed, heartbeat, join, start_member, sync


@pytest.fixture
def kit() -> ApiKit:
    return ApiKit({"orders": 2}, brokers=3)


@pytest.fixture
def coordinator(kit: ApiKit) -> int:
    return kit.cluster.coordinator_node(GROUP).id


class TestMembership:
    def test_member_joins_syncs_heartbeats_and_leaves(self, kit: ApiKit, coordinator: int) -> None:
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

    def test_join_is_held_until_the_others_have_joined(self, kit: ApiKit, coordinator: int) -> None:
        one = start_member(kit, coordinator)
        two = kit.answer(join(), coordinator).member_id
        held = kit.ask(join(two), coordinator)
        assert held == []
        assert kit.answer(heartbeat(one), coordinator).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        leader = kit.answer(join(one), coordinator)
        (follower,) = held
        assert (leader.generation_id, follower.generation_id) == (2, 2)
        assert (len(leader.members), len(follower.members)) == (2, 0)

    def test_sync_is_held_until_the_leader_has_assigned(self, kit: ApiKit, coordinator: int) -> None:
        one = start_member(kit, coordinator)
        two = kit.answer(join(), coordinator).member_id
        held_join = kit.ask(join(two), coordinator)
        kit.answer(join(one), coordinator)
        assert len(held_join) == 1
        held = kit.ask(sync(two, 2), coordinator)
        assert held == []
        kit.answer(sync(one, 2, {one: b"1", two: b"2"}), coordinator)
        assert [answer.assignment for answer in held] == [b"2"]

    def test_silent_member_is_removed_by_the_clusters_timer(self, kit: ApiKit, coordinator: int) -> None:
        member_id = start_member(kit, coordinator)
        kit.sleep(9.9)
        assert kit.answer(heartbeat(member_id), coordinator).error_code == ErrorCode.NONE
        kit.sleep(10)
        assert kit.answer(heartbeat(member_id), coordinator).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_join_v0_uses_its_session_timeout_as_rebalance_timeout(self, kit: ApiKit, coordinator: int) -> None:
        joined = kit.answer(join(version=0), coordinator)
        assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 1)
        kit.answer(sync(joined.member_id, 1, {joined.member_id: b""}), coordinator)
        held = kit.ask(join(version=0, timeout=20_000), coordinator)
        kit.sleep(9.9)
        assert held == []
        kit.sleep(0.2)
        assert [answer.generation_id for answer in held] == [2]

    @pytest.mark.parametrize(("version", "none_chosen"), [(6, ""), (7, None)])
    def test_missing_protocol_is_null_only_from_version_seven_on(
        self, kit: ApiKit, coordinator: int, version: int, none_chosen: str | None
    ) -> None:
        refused = kit.answer(join("who", version=version), coordinator)
        assert (refused.error_code, refused.protocol_name) == (ErrorCode.UNKNOWN_MEMBER_ID, none_chosen)

    def test_leave_before_version_three_has_one_error(self, kit: ApiKit, coordinator: int) -> None:
        leave = request(LeaveGroupRequest, 2, group_id=GROUP, member_id="nobody")
        assert kit.answer(leave, coordinator).error_code == ErrorCode.UNKNOWN_MEMBER_ID


class TestOffsets:
    def test_commit_is_fetched_with_its_metadata_and_epoch(self, kit: ApiKit, coordinator: int) -> None:
        assert committed(kit.answer(commit(41), coordinator)) == ErrorCode.NONE
        topics = [{"name": "orders", "partition_indexes": [0, 1]}]
        for version in (7, 8):
            fetch = request(
                OffsetFetchRequest,
                version,
                group_id=GROUP,
                topics=topics,
                groups=[{"group_id": GROUP, "topics": topics}],
            )
            answer = kit.answer(fetch, coordinator)
            (topic,) = answer.topics if version < 8 else answer.groups[0].topics
            found = [(p.committed_offset, p.metadata, p.committed_leader_epoch, p.error_code) for p in topic.partitions]
            assert found == [(41, "note", 3, 0), (-1, "", -1, 0)]

    def test_fetch_of_all_offsets_returns_only_committed_ones(self, kit: ApiKit, coordinator: int) -> None:
        kit.answer(commit(5, partition=1), coordinator)
        (topic,) = kit.answer(request(OffsetFetchRequest, 2, group_id=GROUP, topics=None), coordinator).topics
        assert [(p.partition_index, p.committed_offset) for p in topic.partitions] == [(1, 5)]

    @pytest.mark.parametrize(("topic", "partition"), [("unknown", 0), ("orders", 2)])
    def test_commit_for_an_unknown_partition_is_refused(
        self, kit: ApiKit, coordinator: int, topic: str, partition: int
    ) -> None:
        answer = kit.answer(commit(1, topic=topic, partition=partition), coordinator)
        assert committed(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_commit_of_another_generation_is_refused(self, kit: ApiKit, coordinator: int) -> None:
        member_id = start_member(kit, coordinator)
        fields = {"member_id": member_id, "generation_id_or_member_epoch": 0}
        assert committed(kit.answer(commit(1, **fields), coordinator)) == ErrorCode.ILLEGAL_GENERATION
        fields["generation_id_or_member_epoch"] = 1
        assert committed(kit.answer(commit(1, **fields), coordinator)) == ErrorCode.NONE

    @pytest.mark.parametrize(
        ("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
    )
    def test_commit_to_a_missing_group_uses_a_code_of_its_version(
        self, kit: ApiKit, coordinator: int, version: int, code: ErrorCode
    ) -> None:
        to_missing_group = commit(1, version=version, member_id="m", generation_id_or_member_epoch=4)
        assert committed(kit.answer(to_missing_group, coordinator)) == code

    def test_commits_can_be_deleted(self, kit: ApiKit, coordinator: int) -> None:
        kit.answer(commit(5), coordinator)
        topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
        answer = kit.answer(request(OffsetDeleteRequest, 0, group_id=GROUP, topics=topics), coordinator)
        assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)
        assert kit.answer(request(OffsetFetchRequest, 2, group_id=GROUP, topics=None), coordinator).topics == []


class TestAdministration:
    def test_group_is_described_and_listed_by_its_coordinator(self, kit: ApiKit, coordinator: int) -> None:
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

    @pytest.mark.parametrize(
        ("types", "found"), [([], 1), (["Classic"], 1), (["consumer"], 0), (["consumer", "classic"], 1), (["?"], 0)]
    )
    def test_groups_are_listed_by_type(self, kit: ApiKit, coordinator: int, types: list[str], found: int) -> None:
        start_member(kit, coordinator)
        listed = kit.answer(request(ListGroupsRequest, 5, states_filter=[], types_filter=types), coordinator).groups
        assert [(group.group_id, group.group_type) for group in listed] == [(GROUP, "classic")] * found

    def test_unknown_group_is_dead(self, kit: ApiKit, coordinator: int) -> None:
        (group,) = kit.answer(request(DescribeGroupsRequest, 5, groups=[GROUP]), coordinator).groups
        assert (group.error_code, group.group_state, group.members) == (0, "Dead", [])

    def test_unknown_group_is_an_error_from_version_six_on(self, kit: ApiKit, coordinator: int) -> None:
        (group,) = kit.answer(request(DescribeGroupsRequest, 6, groups=[GROUP]), coordinator).groups
        assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
        assert group.error_message == f"Group {GROUP} not found."

    def test_only_an_empty_group_is_deleted(self, kit: ApiKit, coordinator: int) -> None:
        member_id = start_member(kit, coordinator)
        delete = request(DeleteGroupsRequest, 2, groups_names=[GROUP])
        assert kit.answer(delete, coordinator).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        kit.answer(request(LeaveGroupRequest, 0, group_id=GROUP, member_id=member_id), coordinator)
        assert kit.answer(delete, coordinator).results[0].error_code == ErrorCode.NONE
