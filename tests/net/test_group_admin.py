"""GroupAdmin: descriptions, changes and refusals. Over the in-memory cluster under virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sarameya import Config, ConnectError, Event
from sarameya.embedded import EmbeddedCluster
from sarameya.error_codes import ErrorCode
from sarameya.errors import GroupAuthorizationError, KafkaError, ProtocolError, RetriesExhaustedError
from sarameya.model import CommittedOffset, TopicPartition
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.observe import Retrying
from sarameya.protocol.cluster.described_groups import DEAD, EMPTY, STABLE
from sarameya.protocol.versions import Api
from sarameya.testing import memory_cluster
from tests.consumer.kit import edit_answers
from tests.group.kit import Recorder, committed, deadline, fill, orders, start_member

ORDERS_0 = TopicPartition("orders", 0)


@asynccontextmanager
async def admin_of(
    cluster: EmbeddedCluster, transport: Any = None, **options: Any
) -> AsyncIterator[tuple[GroupAdmin, list[Event]]]:
    events: list[Event] = []
    config = Config(**{"retry_timeout": 10.0, "request_timeout": 5.0, **options})
    async with GroupAdmin(cluster.bootstrap_servers, config, events.append, transport or cluster.transport) as admin:
        yield admin, events


# -- descriptions -------------------------------------------------------------------------------------


async def test_groups_of_all_brokers_are_listed(autojump_clock: MockClock) -> None:
    async with orders(brokers=3) as cluster, admin_of(cluster) as (admin, _), deadline():
        names = [f"group-{n}" for n in range(12)]
        for name in names:
            await admin.commit(name, {ORDERS_0: 0})
        listing = await admin.list_groups()
        assert [group.group for group in listing.groups] == sorted(names)
        assert {group.state for group in listing.groups} == {EMPTY}
        assert {group.coordinator.node_id for group in listing.groups} == {0, 1, 2}
        for group in listing.groups:
            assert (await admin.describe(group.group)).coordinator.address == group.coordinator.address
        assert listing.failures == ()


async def test_broker_that_cannot_list_is_reported_with_other_groups(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: Any, answer: Any) -> None:
        if any(group.group_id == "mine" for group in answer.groups):
            answer.error_code, answer.groups = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, []

    async with orders(brokers=2) as cluster, admin_of(cluster) as (admin, _), deadline():
        for name in ("mine", "yours"):
            await admin.commit(name, {ORDERS_0: 0})
        cluster.move_coordinator("mine", 0)
        cluster.move_coordinator("yours", 1)
        edit_answers(monkeypatch, Api.LIST_GROUPS, refuse)
        listing = await admin.list_groups()
        assert [group.group for group in listing.groups] == ["yours"]
        ((broker, error),) = listing.failures
        assert broker.node_id == 0
        assert "CLUSTER_AUTHORIZATION_FAILED" in str(error)


async def test_listing_is_retried_while_a_broker_loads_groups(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, events), deadline():
        await admin.commit("g", {ORDERS_0: 0})
        cluster.fail_next(Api.LIST_GROUPS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2)
        listing = await admin.list_groups()
        assert [group.group for group in listing.groups] == ["g"]
        assert [event.what for event in events if isinstance(event, Retrying)] == ["groups of broker 0"] * 2


async def test_active_group_is_described_with_members_and_commits(autojump_clock: MockClock) -> None:
    async with orders(3) as cluster, admin_of(cluster) as (admin, _), deadline() as nursery:
        fill(cluster, 5, partition=2)
        a, b = Recorder(), Recorder()
        await start_member(nursery, cluster, a, client_id="a", group_instance_id="one")
        await a.received(5)
        await start_member(nursery, cluster, b, client_id="b")
        await b.until(lambda: bool(b.sessions))
        group = await admin.describe("g")
        assert (group.state, group.type, group.protocol_type, group.assignor) == (
            STABLE,
            "classic",
            "consumer",
            "range",
        )
        assert [(m.client_id, m.group_instance_id, m.topics, m.assignment) for m in group.members] == [
            ("a", "one", ("orders",), {"orders": (0, 1)}),
            ("b", None, ("orders",), {"orders": (2,)}),
        ]
        assert (await admin.committed("g"))[TopicPartition("orders", 2)] == CommittedOffset(5, "", 0)


async def test_missing_group_is_described_as_dead(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        assert (await admin.describe("nobody")).state == DEAD
        assert await admin.committed("nobody") == {}


async def test_group_of_another_type_is_described_from_the_listing(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_classic(request: Any, answer: Any) -> None:
        for group in answer.groups:
            group.error_code, group.group_state = ErrorCode.GROUP_ID_NOT_FOUND, ""

    def share(request: Any, answer: Any) -> None:
        for group in answer.groups:
            group.group_type, group.protocol_type, group.group_state = "share", "share", STABLE

    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        await admin.commit("g", {ORDERS_0: 0})
        edit_answers(monkeypatch, Api.DESCRIBE_GROUPS, not_classic)
        assert (await admin.describe("g")).state == DEAD
        edit_answers(monkeypatch, Api.LIST_GROUPS, share)
        group = await admin.describe("g")
        assert (group.type, group.protocol_type, group.state, group.members) == ("share", "share", STABLE, ())


async def test_moved_coordinator_is_found(autojump_clock: MockClock) -> None:
    async with orders(brokers=2) as cluster, admin_of(cluster) as (admin, _), deadline():
        await admin.commit("g", {ORDERS_0: 7})
        before = (await admin.describe("g")).coordinator.node_id
        cluster.move_coordinator("g", 1 - before)
        group = await admin.describe("g")
        assert (group.coordinator.node_id, group.state) == (1 - before, EMPTY)
        assert (await admin.committed("g"))[ORDERS_0].offset == 7


async def test_new_coordinator_is_found_after_a_broker_stops(autojump_clock: MockClock) -> None:
    async with orders(brokers=2) as cluster, admin_of(cluster) as (admin, _), deadline():
        await admin.commit("g", {ORDERS_0: 7})
        before = (await admin.describe("g")).coordinator.node_id
        await cluster.stop_broker(before)
        assert (await admin.describe("g")).coordinator.node_id == 1 - before


async def test_passing_error_that_lasts_fails_at_the_retry_timeout(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        cluster.fail_next(Api.DESCRIBE_GROUPS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1000)
        began = trio.current_time()
        with pytest.raises(RetriesExhaustedError, match=r"description of group 'g'.*COORDINATOR_LOAD_IN_PROGRESS"):
            await admin.describe("g")
        assert 10 <= trio.current_time() - began < 15


@pytest.mark.parametrize(
    ("api", "call"),
    [
        (Api.FIND_COORDINATOR, lambda admin: admin.describe("g")),
        (Api.DESCRIBE_GROUPS, lambda admin: admin.describe("g")),
        (Api.OFFSET_FETCH, lambda admin: admin.committed("g")),
        (Api.DELETE_GROUPS, lambda admin: admin.delete_group("g")),
        (Api.OFFSET_DELETE, lambda admin: admin.delete_offsets("g", [ORDERS_0])),
    ],
)
async def test_permanent_error_names_the_group(autojump_clock: MockClock, api: Api, call: Any) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, events), deadline():
        cluster.fail_next(api, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        with pytest.raises(GroupAuthorizationError, match=r"'g': GROUP_AUTHORIZATION_FAILED \(30\); it needs"):
            await call(admin)
        assert events == []


@pytest.mark.parametrize(
    ("api", "call", "acl"),
    [
        (Api.FIND_COORDINATOR, lambda admin: admin.describe("g"), "DESCRIBE on the group"),
        (Api.DESCRIBE_GROUPS, lambda admin: admin.describe("g"), "DESCRIBE on the group"),
        (Api.OFFSET_FETCH, lambda admin: admin.committed("g"), "DESCRIBE on the group"),
        (Api.OFFSET_COMMIT, lambda admin: admin.commit("g", {ORDERS_0: 0}), "READ on the group"),
        (Api.OFFSET_DELETE, lambda admin: admin.delete_offsets("g", [ORDERS_0]), "DELETE on the group"),
        (Api.DELETE_GROUPS, lambda admin: admin.delete_group("g"), "DELETE on the group"),
    ],
)
async def test_authorization_error_names_the_required_acl(
    api: Api, call: Any, acl: str, autojump_clock: MockClock
) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        await admin.commit("g", {ORDERS_0: 0})
        if api is Api.FIND_COORDINATOR:
            admin._coordinators.clear()
        cluster.fail_next(api, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        with pytest.raises(GroupAuthorizationError, match=f"; it needs the ACL {acl}$"):
            await call(admin)


async def test_response_without_the_group_is_a_protocol_error(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def omit_groups(request: Any, answer: Any) -> None:
        answer.groups = []

    edit_answers(monkeypatch, Api.DESCRIBE_GROUPS, omit_groups)
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        with pytest.raises(ProtocolError, match="does not contain the requested group 'g'"):
            await admin.describe("g")


async def test_unknown_epoch_ends_are_omitted(autojump_clock: MockClock) -> None:
    async with orders(3, brokers=2) as cluster, admin_of(cluster) as (admin, _), deadline():
        for number in range(3):
            fill(cluster, 5, number)
            cluster.move_leader("orders", number, (number + 1) % 2)
            fill(cluster, 5, number)
        last = cluster.log("orders", 0).leader_epoch
        cluster.truncate("orders", 1, 3)
        cluster.move_leader("orders", 1, 1)
        fill(cluster, 20, 1)
        epochs = {TopicPartition("orders", number): epoch for number, epoch in enumerate((last, last, -1, 0))}
        await admin.metadata(["orders"])
        assert await admin.epoch_ends(epochs) == {ORDERS_0: 10, TopicPartition("orders", 1): 3}
        assert await admin.epoch_ends({ORDERS_0: last - 1}) == {ORDERS_0: 5}
        cluster.fail_next(Api.OFFSET_FOR_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert await admin.epoch_ends({ORDERS_0: last}) == {}


# -- changes ------------------------------------------------------------------------------------


async def test_commit_creates_a_missing_group(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, admin_of(cluster) as (admin, _), deadline():
        offsets = {ORDERS_0: 3, TopicPartition("orders", 1): 4}
        assert await admin.commit("g", offsets) == dict.fromkeys(offsets, ErrorCode.NONE)
        assert committed(cluster) == {"orders-0": 3, "orders-1": 4}
        assert (await admin.describe("g")).state == EMPTY


async def test_commit_carries_metadata_and_leader_epoch(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, admin_of(cluster) as (admin, _), deadline():
        offsets = {ORDERS_0: CommittedOffset(3, "a note", 0), TopicPartition("orders", 1): 4}
        assert await admin.commit("g", offsets) == dict.fromkeys(offsets, ErrorCode.NONE)
        assert await admin.committed("g") == {
            ORDERS_0: CommittedOffset(3, "a note", 0),
            TopicPartition("orders", 1): CommittedOffset(4),
        }


@pytest.mark.parametrize(("keep_for", "is_kept"), [(None, False), (60.0, False), (30 * 86_400.0, True)])
async def test_commit_is_kept_for_the_requested_time(
    autojump_clock: MockClock, keep_for: float | None, is_kept: bool
) -> None:
    async with memory_cluster({"orders": 1}) as cluster, admin_of(cluster) as (admin, _):
        await admin.commit("g", {ORDERS_0: CommittedOffset(3, "a note")}, keep_for=keep_for)
        await trio.sleep(10 * 86_400)
        assert await admin.committed("g") == ({ORDERS_0: CommittedOffset(3, "a note")} if is_kept else {})


async def test_commit_for_an_active_group_is_refused_entirely(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, admin_of(cluster) as (admin, _), deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: {"claim orders-0", "claim orders-1"} <= {*handler.calls})
        before = committed(cluster)
        offsets = {ORDERS_0: 3, TopicPartition("orders", 1): 4}
        assert await admin.commit("g", offsets) == dict.fromkeys(offsets, ErrorCode.UNKNOWN_MEMBER_ID)
        assert committed(cluster) == before


async def test_admin_commit_omits_the_instance_id(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster, group_instance_id="one") as (admin, _), deadline():
        assert await admin.commit("g", {ORDERS_0: 3}) == {ORDERS_0: ErrorCode.NONE}


async def test_commit_is_retried_while_the_coordinator_loads(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, events), deadline():
        cluster.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert await admin.commit("g", {ORDERS_0: 3}) == {ORDERS_0: ErrorCode.NONE}
        assert [event.what for event in events if isinstance(event, Retrying)] == ["commit of group 'g'"]


async def test_commit_of_a_missing_partition_fails_alone(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        missing = TopicPartition("orders", 7)
        codes = await admin.commit("g", {ORDERS_0: 3, missing: 3})
        assert codes == {ORDERS_0: ErrorCode.NONE, missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert committed(cluster) == {"orders-0": 3}


async def test_partition_missing_in_a_response_is_not_committed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def omit_topics(request: Any, answer: Any) -> None:
        answer.topics = []

    edit_answers(monkeypatch, Api.OFFSET_COMMIT, omit_topics)
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline():
        assert await admin.commit("g", {ORDERS_0: 3}) == {ORDERS_0: ErrorCode.UNKNOWN_SERVER_ERROR}


async def test_deleting_one_offset_keeps_the_others(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, admin_of(cluster) as (admin, _), deadline():
        other = TopicPartition("orders", 1)
        await admin.commit("g", {ORDERS_0: 3, other: 4})
        assert await admin.delete_offsets("g", [other]) == {other: ErrorCode.NONE}
        assert committed(cluster) == {"orders-0": 3}


async def test_offsets_of_a_subscribed_topic_are_not_deleted(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline() as nursery:
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        assert await admin.delete_offsets("g", [ORDERS_0]) == {ORDERS_0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


async def test_only_a_group_without_members_is_deleted(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as (admin, _), deadline() as nursery:
        await admin.commit("old", {ORDERS_0: 3})
        await admin.delete_group("old")
        assert (await admin.describe("old")).state == DEAD
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.until(lambda: bool(handler.sessions))
        with pytest.raises(KafkaError, match="NON_EMPTY_GROUP"):
            await admin.delete_group("g")


# -- the cluster ---------------------------------------------------------------------------------


async def test_unreachable_cluster_is_reported_with_its_address(autojump_clock: MockClock) -> None:
    class Unreachable:
        async def connect(self, host: str, port: int) -> trio.abc.Stream:
            raise ConnectionRefusedError(111, "Connection refused")

    async with orders() as cluster, deadline():
        with pytest.raises(ConnectError, match=r"broker-0:9092: Connection refused \(gave up after 3 s\)"):
            async with admin_of(cluster, Unreachable(), bootstrap_timeout=3.0):
                raise AssertionError("the admin has opened without a broker")


async def test_exception_of_the_block_is_raised_unchanged(autojump_clock: MockClock) -> None:
    async with orders() as cluster, deadline():
        with pytest.raises(KeyError):
            async with admin_of(cluster):
                raise KeyError("mine")
