"""Results of the commands over the in-memory cluster, in virtual time: shown, refused and executed changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from kafka.protocol.consumer import JoinGroupRequest, SyncGroupRequest
from trio.testing import MockClock

from sarameya import Config
from sarameya.embedded import EmbeddedCluster
from sarameya.error_codes import ErrorCode
from sarameya.errors import GroupAuthorizationError, KafkaError, UnknownTopicError, UnsupportedVersionError
from sarameya.net.admin.group_admin import GroupAdmin
from sarameya.protocol.versions import Api
from sarameya.service.groups import operations, results
from sarameya.service.groups.checks import GroupChangeError
from sarameya.service.groups.reset import ResetKind, ResetTarget
from sarameya.service.groups.topic_choice import TopicChoice
from sarameya.testing import VIRTUAL_EPOCH, memory_cluster
from tests.consumer.kit import edit_answers
from tests.embedded.api_kit import request
from tests.embedded.wire_client import connected
from tests.group.kit import Recorder, Running, committed, deadline, fill, orders, start_member
from tests.service.groups.kit import tp

ORDERS = [TopicChoice("orders")]
EARLIEST, LATEST = ResetTarget(ResetKind.EARLIEST), ResetTarget(ResetKind.LATEST)


@asynccontextmanager
async def admin_of(cluster: EmbeddedCluster) -> AsyncIterator[GroupAdmin]:
    config = Config(retry_timeout=5.0, request_timeout=5.0)
    async with GroupAdmin(cluster.bootstrap_servers, config, lambda event: None, cluster.transport) as admin:
        yield admin


def lose_old(request: Any, answer: Any) -> None:
    """Report the topic `old` as deleted in a metadata response."""
    for topic in answer.topics:
        if topic.name == "old":
            topic.error_code, topic.partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []


async def settled(nursery: trio.Nursery, cluster: EmbeddedCluster, *names: str, **options: Any) -> list[Running]:
    """Start members with these client ids, and wait until all have a session of the same generation."""
    handlers = [Recorder() for _ in names]
    running = [
        await start_member(nursery, cluster, handler, client_id=name, **options)
        for name, handler in zip(names, handlers, strict=True)
    ]
    while any(not handler.sessions for handler in handlers) or (
        len({handler.sessions[-1].generation for handler in handlers}) > 1
    ):
        await trio.sleep(0.1)
    return running


# -- list ----------------------------------------------------------------------------------------


async def test_groups_are_listed_by_state(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline() as nursery:
        await settled(nursery, cluster, "a")
        await admin.commit("old", {tp("orders-0"): 0})
        assert [g["group"] for g in (await results.list_groups(admin)).document["groups"]] == ["g", "old"]
        assert [g["group"] for g in (await results.list_groups(admin, ["Stable"])).document["groups"]] == ["g"]
        assert (await results.list_groups(admin, ["Dead"])).text == "no groups"


async def test_unknown_states_are_not_taken_for_the_requested_one(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(request: Any, answer: Any) -> None:
        for group in answer.groups:
            group.group_state = ""

    edit_answers(monkeypatch, Api.LIST_GROUPS, forget)
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        await admin.commit("old", {tp("orders-0"): 0})
        with pytest.raises(UnsupportedVersionError, match="list without --state"):
            await results.list_groups(admin, ["Stable"])


async def test_failed_broker_is_an_error_beside_the_listed_groups(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        cluster.fail_next(Api.LIST_GROUPS, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        answer = await results.list_groups(admin)
        assert [str(error) for error in answer.errors] == [
            "groups of broker 0 at broker-0:9092 are not known: groups of broker 0: CLUSTER_AUTHORIZATION_FAILED (31)"
        ]
        assert answer.document["unreachable"][0]["broker"]["id"] == 0


# -- describe ------------------------------------------------------------------------------------


async def test_active_group_is_described_with_lag_and_advice(autojump_clock: MockClock) -> None:
    async with orders(3, brokers=2) as cluster, admin_of(cluster) as admin, deadline() as nursery:
        fill(cluster, 5, partition=0)
        await settled(nursery, cluster, "a", "b", autocommit=False)
        fill(cluster, 4, partition=2)
        answer = await results.describe(admin, ["g"])
        (document,) = answer.document["groups"]
        assert [
            (row["partition"], row["committed_offset"], row["log_end_offset"], row["lag"], row["client_id"])
            for row in document["partitions"]
        ] == [(0, 0, 5, 5, "a"), (1, 0, 0, 0, "a"), (2, 0, 4, 4, "b")]
        assert (document["state"], document["lag"], answer.errors) == ("Stable", 9, ())
        assert document["offsets_partition"] == {"topic": "__consumer_offsets", "partition": 3, "partitions": 50}
        assert document["coordinator"]["id"] == 3 % 2
        assert document["advice"] == [
            "3 partitions, 2 members: some read 2, others 1; 1 or 3 members would read the same number each"
        ]
        assert answer.text.startswith("GROUP g\n  state        Stable\n  members      2\n  lag          9\n")


async def test_kafka_consumer_demo_is_in_partition_35(
    autojump_clock: MockClock,
) -> None:
    async with orders(brokers=3) as cluster, admin_of(cluster) as admin, deadline():
        await admin.commit("KafkaConsumerDemo", {tp("orders-0"): 0})
        cluster.move_leader("__consumer_offsets", 35, 1)
        answer = await results.describe(admin, ["KafkaConsumerDemo"])
        assert "  coordinator  1 at broker-1:9092, leader of __consumer_offsets-35 of 50\n" in answer.text


async def test_missing_group_does_not_hide_the_others(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        await admin.commit("old", {tp("orders-0"): 0})
        answer = await results.describe(admin, ["nobody", "old"])
        assert [group["group"] for group in answer.document["groups"]] == ["old"]
        assert [error["group"] for error in answer.document["errors"]] == ["nobody"]
        assert [str(error) for error in answer.errors] == [
            "group 'nobody': GROUP_ID_NOT_FOUND (69); "
            "there is no such group; `sarameya groups list` shows the groups that exist"
        ]


async def test_group_named_twice_is_described_once(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        await admin.commit("old", {tp("orders-0"): 0})
        assert len((await results.describe(admin, ["old", "old"])).document["groups"]) == 1


async def test_all_groups_are_described_in_order(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        names = [f"group-{n:02}" for n in range(40)]  # more than are described concurrently
        for name in reversed(names):
            await admin.commit(name, {tp("orders-0"): 0})
        assert [group["group"] for group in (await results.describe(admin, None)).document["groups"]] == names


async def test_cluster_without_groups_has_none_to_describe(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        answer = await results.describe(admin, None)
        assert (answer.text, answer.document["groups"], answer.errors) == ("no groups", [], ())


async def test_commit_of_a_deleted_topic_is_shown_without_log_end(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 1, "old": 1}) as cluster, admin_of(cluster) as admin, deadline():
        await admin.commit("g", {tp("orders-0"): 0, tp("old-0"): 0})
        with pytest.MonkeyPatch.context() as monkeypatch:
            edit_answers(monkeypatch, Api.METADATA, lose_old)
            (document,) = (await results.describe(admin, ["g"])).document["groups"]
        old, here = document["partitions"]
        assert (old["topic"], old["committed_offset"], old["log_end_offset"]) == ("old", 0, None)
        assert old["problem"] == "no such partition"
        assert (here["topic"], here["log_end_offset"]) == ("orders", 0)


async def test_group_of_another_protocol_is_shown_undecoded(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline(), connected(cluster) as client:
        join: dict[str, Any] = {
            "group_id": "workers",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "connect",
            "protocols": [{"name": "sessioned", "metadata": b"\x00\x01"}],
        }
        member_id = (await client.ask(request(JoinGroupRequest, 3, member_id="", **join))).member_id
        mine = [{"member_id": member_id, "assignment": b"\xff"}]
        sync = request(SyncGroupRequest, 3, group_id="workers", generation_id=1, member_id=member_id, assignments=mine)
        assert (await client.ask(sync)).error_code == 0
        answer = await results.describe(admin, ["workers"])
        (document,) = answer.document["groups"]
        assert (document["protocol_type"], document["assignor"]) == ("connect", "sessioned")
        (member,) = document["members"]
        assert (member["member_id"], member["assignment"]) == (member_id, None)
        assert member["problem"] == "not decoded: the group's protocol is 'connect'"
        assert document["advice"] == [
            "the group's protocol is 'connect': its members' assignments are not decoded here"
        ]
        with pytest.raises(GroupChangeError, match="group 'workers' is active"):
            await results.reset(admin, "workers", ORDERS, LATEST, execute=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda admin: results.reset(admin, "g", ORDERS, LATEST, execute=True),
        lambda admin: results.delete_offsets(admin, "g", ORDERS, execute=True),
        lambda admin: results.delete(admin, ["g"], execute=True),
    ],
    ids=["reset", "delete offsets", "delete"],
)
async def test_group_of_another_type_is_not_changed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, change: Any
) -> None:
    def not_classic(request: Any, answer: Any) -> None:
        for group in answer.groups:
            group.error_code = ErrorCode.GROUP_ID_NOT_FOUND

    def share(request: Any, answer: Any) -> None:
        for group in answer.groups:
            group.group_type = "share"

    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        await admin.commit("g", {tp("orders-0"): 0})
        edit_answers(monkeypatch, Api.DESCRIBE_GROUPS, not_classic)
        edit_answers(monkeypatch, Api.LIST_GROUPS, share)
        with pytest.raises(GroupChangeError, match="group 'g' is of the type 'share', which cannot be changed here"):
            await change(admin)


# -- reset ---------------------------------------------------------------------------------------


async def test_reset_without_execute_is_only_shown(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, admin_of(cluster) as admin, deadline():
        fill(cluster, 5)
        await admin.commit("g", {tp("orders-0"): 3, tp("orders-1"): 0})
        shown = await results.reset(admin, "g", ORDERS, LATEST, execute=False)
        assert committed(cluster) == {"orders-0": 3, "orders-1": 0}
        assert shown.document["executed"] is False
        assert shown.text.endswith("\nNothing is changed yet: add --execute to do it.")
        done = await results.reset(admin, "g", ORDERS, LATEST, execute=True)
        assert committed(cluster) == {"orders-0": 5, "orders-1": 0}
        assert done.document == {**shown.document, "executed": True}
        assert done.text.endswith("\nDone.")
        rows = done.document["partitions"]
        assert [(row["committed_offset"], row["new_offset"], row["lag"], row["new_lag"]) for row in rows] == [
            (3, 5, 2, 0),
            (0, 0, 0, 0),
        ]


async def test_reset_of_an_active_group_is_refused_with_its_members(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline() as nursery:
        await settled(nursery, cluster, "a")
        await trio.sleep(5)
        before = committed(cluster)
        refusal = r"group 'g' is active \(Stable\): 1 member: a-\S+ \(client a at /memory\); stop its members first$"
        for execute in (False, True):
            with pytest.raises(GroupChangeError, match=refusal):
                await results.reset(admin, "g", ORDERS, EARLIEST, execute=execute)
        assert committed(cluster) == before


async def test_reset_names_the_session_time_of_static_members(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline() as nursery:
        (running,) = await settled(nursery, cluster, "a", group_instance_id="one", session_timeout=30.0)
        await running.close()
        with pytest.raises(GroupChangeError, match="a static member stays in the group until its session times out"):
            await results.reset(admin, "g", ORDERS, EARLIEST, execute=False)
        await trio.sleep(31)
        await results.reset(admin, "g", ORDERS, EARLIEST, execute=False)


async def test_reset_is_refused_if_a_member_joins_meanwhile(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline() as nursery:
        fill(cluster, 5)
        await admin.commit("g", {tp("orders-0"): 3})
        planned = await operations.plan_reset(admin, "g", ORDERS, EARLIEST)
        await settled(nursery, cluster, "a")
        with pytest.raises(
            GroupChangeError, match=r"'g': refused .* UNKNOWN_MEMBER_ID \(25\), since a member has joined"
        ):
            await operations.carry_out_reset(admin, "g", planned.moves)
        await trio.sleep(5)
        assert committed(cluster) == {"orders-0": 5}


async def test_members_continue_from_the_reset_offsets(autojump_clock: MockClock) -> None:
    async with orders(2) as cluster, admin_of(cluster) as admin, deadline() as nursery:
        fill(cluster, 10)
        fill(cluster, 10, partition=1)
        await admin.commit("g", {tp("orders-0"): 10, tp("orders-1"): 10})
        target = ResetTarget(ResetKind.SHIFT, -3)
        await results.reset(admin, "g", [TopicChoice("orders", (1,))], target, execute=True)
        handler = Recorder()
        await start_member(nursery, cluster, handler)
        await handler.received(3)
        await trio.sleep(10)
        assert handler.offsets("orders", 0) == []
        assert handler.offsets("orders", 1) == [7, 8, 9]


async def test_reset_to_a_time_finds_its_first_message(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 2}) as cluster, admin_of(cluster) as admin, deadline():
        for n in range(5):
            cluster.produce("orders", 0, b"%d" % n)
            await trio.sleep(60)
        target = ResetTarget(ResetKind.TIME, int((VIRTUAL_EPOCH + 120) * 1000))
        answer = await results.reset(admin, "g", ORDERS, target, execute=True)
        assert committed(cluster) == {"orders-0": 2, "orders-1": 0}
        assert [row["note"] for row in answer.document["partitions"]] == [
            None,
            "no message at or after this time: the end of the log",
        ]


async def test_reset_creates_a_missing_group_with_a_note(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        shown = await results.reset(admin, "new", ORDERS, LATEST, execute=False)
        assert "There is no such group: the commit creates it." in shown.text
        done = await results.reset(admin, "new", ORDERS, LATEST, execute=True)
        assert "There was no such group: the commit creates it." in done.text
        assert committed(cluster, "new") == {"orders-0": 0}


async def test_reset_of_all_topics_skips_deleted_partitions(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 3, "old": 1}) as cluster, admin_of(cluster) as admin, deadline():
        for partition in range(3):
            fill(cluster, 5, partition=partition)
        await admin.commit("g", {tp("orders-0"): 1, tp("orders-2"): 1, tp("old-0"): 0})
        with pytest.MonkeyPatch.context() as monkeypatch:
            edit_answers(monkeypatch, Api.METADATA, lose_old)
            answer = await results.reset(admin, "g", [], LATEST, execute=True)
        assert committed(cluster) == {"orders-0": 5, "orders-2": 5, "old-0": 0}
        assert [(row["topic"], row["partition"], row["new_offset"]) for row in answer.document["partitions"]] == [
            ("old", 0, None),
            ("orders", 0, 5),
            ("orders", 2, 5),
        ]


async def test_reset_of_all_topics_needs_a_commit(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        problem = "group 'new' has no commits; name the partitions to commit by --topic"
        with pytest.raises(GroupChangeError, match=problem):
            await results.reset(admin, "new", [], LATEST, execute=True)


async def test_reset_of_a_topic_that_does_not_exist_is_refused(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        with pytest.raises(UnknownTopicError, match="topic 'ordrs'"):
            await results.reset(admin, "g", [*ORDERS, TopicChoice("ordrs")], LATEST, execute=True)
        assert committed(cluster) == {}


async def test_failed_offset_look_up_stops_the_whole_reset(autojump_clock: MockClock) -> None:
    def without_second(request: Any, answer: Any) -> None:
        for topic in answer.topics:
            for part in topic.partitions:
                if part.partition_index == 1:
                    part.error_code = ErrorCode.LEADER_NOT_AVAILABLE

    async with orders(2) as cluster, admin_of(cluster) as admin, deadline():
        with pytest.MonkeyPatch.context() as monkeypatch:
            edit_answers(monkeypatch, Api.LIST_OFFSETS, without_second)
            with pytest.raises(GroupChangeError, match=r"^orders-1: LEADER_NOT_AVAILABLE \(5\)$"):
                await results.reset(admin, "g", ORDERS, LATEST, execute=True)
        assert committed(cluster) == {}


async def test_refused_partitions_of_a_reset_are_reported(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_second(request: Any, answer: Any) -> None:
        for topic in answer.topics:
            for part in topic.partitions:
                if part.partition_index == 1:
                    part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    edit_answers(monkeypatch, Api.OFFSET_COMMIT, refuse_second)
    async with orders(2) as cluster, admin_of(cluster) as admin, deadline():
        answer = await results.reset(admin, "g", ORDERS, LATEST, execute=True)
        refusals = [None, "TOPIC_AUTHORIZATION_FAILED (29)"]
        assert [row["error"] for row in answer.document["partitions"]] == refusals
        assert [(row["new_offset"], row["new_lag"]) for row in answer.document["partitions"]] == [(0, 0), (None, None)]
        assert [str(error) for error in answer.errors] == ["orders-1: not changed: TOPIC_AUTHORIZATION_FAILED (29)"]
        assert answer.text.endswith("\nDone, except for 1 of 2 partitions.")


# -- delete --------------------------------------------------------------------------------------


async def test_offsets_are_deleted_only_with_execute(autojump_clock: MockClock) -> None:
    async with memory_cluster({"orders": 2, "payments": 1}) as cluster, admin_of(cluster) as admin, deadline():
        await admin.commit("g", {tp("orders-0"): 0, tp("orders-1"): 0, tp("payments-0"): 0})
        choices = [TopicChoice("orders", (1,)), TopicChoice("payments")]
        shown = await results.delete_offsets(admin, "g", choices, execute=False)
        assert len(committed(cluster)) == 3
        done = await results.delete_offsets(admin, "g", choices, execute=True)
        assert committed(cluster) == {"orders-0": 0}
        assert [(row["topic"], row["partition"]) for row in done.document["partitions"]] == [
            ("orders", 1),
            ("payments", 0),
        ]
        assert done.document == {**shown.document, "executed": True}
        await results.delete_offsets(admin, "g", [], execute=True)
        assert committed(cluster) == {}


async def test_offsets_of_subscribed_topics_are_kept_with_an_error(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline() as nursery:
        await settled(nursery, cluster, "a")
        await trio.sleep(5)
        answer = await results.delete_offsets(admin, "g", ORDERS, execute=True)
        assert [str(error) for error in answer.errors] == ["orders-0: not changed: GROUP_SUBSCRIBED_TO_TOPIC (86)"]
        assert committed(cluster) == {"orders-0": 0}


async def test_deletion_of_missing_offsets_is_refused(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        await admin.commit("g", {tp("orders-0"): 0})
        with pytest.raises(GroupChangeError, match="group 'g' has no commit for the chosen partitions"):
            await results.delete_offsets(admin, "g", [TopicChoice("payments")], execute=True)


async def test_groups_without_members_are_deleted_only_with_execute(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        for name in ("a", "b"):
            await admin.commit(name, {tp("orders-0"): 0})
        shown = await results.delete(admin, ["a", "b"], execute=False)
        assert len((await admin.list_groups()).groups) == 2
        assert shown.text.splitlines()[0] == "group 'a', with 1 commit: would be deleted"
        done = await results.delete(admin, ["a", "b"], execute=True)
        assert (await admin.list_groups()).groups == ()
        assert done.text.splitlines() == ["group 'a', with 1 commit: deleted", "group 'b', with 1 commit: deleted"]
        assert done.document == {
            "executed": True,
            "groups": [{"group": "a", "commits": 1, "error": None}, {"group": "b", "commits": 1, "error": None}],
        }


async def test_no_group_is_deleted_if_one_cannot_be(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline() as nursery:
        await admin.commit("old", {tp("orders-0"): 0})
        await settled(nursery, cluster, "a")
        with pytest.raises(GroupChangeError, match="group 'g' is active"):
            await results.delete(admin, ["old", "g"], execute=True)
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            await results.delete(admin, ["old", "nobody"], execute=True)
        assert [group.group for group in (await admin.list_groups()).groups] == ["g", "old"]


async def test_refused_deletion_is_reported_beside_the_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: Any, answer: Any) -> None:
        for result in answer.results:
            if result.group_id != "a":
                result.error_code = ErrorCode.NON_EMPTY_GROUP

    edit_answers(monkeypatch, Api.DELETE_GROUPS, refuse)
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        for name in ("a", "b"):
            await admin.commit(name, {tp("orders-0"): 0})
        answer = await results.delete(admin, ["a", "b"], execute=True)
        assert answer.text.splitlines() == [
            "group 'a', with 1 commit: deleted",
            "group 'b', with 1 commit: not deleted",
        ]
        ((error),) = answer.errors
        assert str(error).startswith("group 'b': refused by the coordinator with NON_EMPTY_GROUP (68), since a member")


async def test_refusal_of_the_cluster_is_raised_with_its_type(autojump_clock: MockClock) -> None:
    async with orders() as cluster, admin_of(cluster) as admin, deadline():
        cluster.fail_next(Api.DESCRIBE_GROUPS, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        with pytest.raises(GroupAuthorizationError):
            await results.reset(admin, "g", ORDERS, LATEST, execute=True)
