"""Controls that make a cluster fail, as a client on the wire sees them. In memory, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from trio.testing import MockClock

from sarameya.embedded import EmbeddedCluster, Refused
from sarameya.embedded.faults import Drop, ErrorResponse, Fault
from sarameya.embedded.groups.model.group_states import GroupState
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api
from tests.embedded.api_kit import request
from tests.embedded.group_requests import GROUP, commit, committed, heartbeat, join, member
from tests.embedded.wire_client import WireClient, connected

REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
LONG = 1e6


@asynccontextmanager
async def one_broker() -> AsyncIterator[tuple[EmbeddedCluster, WireClient]]:
    with trio.fail_after(LONG):
        async with (
            EmbeddedCluster({"orders": 2}, in_memory=True, seed=1) as cluster,
            connected(cluster) as client,
        ):
            yield cluster, client


def stored(cluster: EmbeddedCluster, group: str = GROUP) -> list[int]:
    """Return the committed offsets of the group."""
    return [offset.offset for offset in cluster.committed(group).values()]


def fetch_offsets(*groups: str) -> Any:
    return request(OffsetFetchRequest, 8, groups=[{"group_id": group, "topics": None} for group in groups])


class TestFail:
    async def test_failed_requests_return_the_code_without_effect(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.fail_next(Api.OFFSET_COMMIT, REFUSED, 2)
            codes = [committed(await client.ask(commit(offset))) for offset in (1, 2, 3)]
            assert codes == [REFUSED, REFUSED, ErrorCode.NONE]
            assert stored(cluster) == [3]


class TestDelay:
    async def test_delayed_response_does_not_delay_the_effect(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.delay_next(Api.OFFSET_COMMIT, 30.0)
            await client.send(commit(1))
            await trio.testing.wait_all_tasks_blocked()
            assert stored(cluster) == [1]
            assert committed(await client.receive()) == ErrorCode.NONE
            assert trio.current_time() == 30.0

    async def test_delayed_request_delays_the_effect(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.delay_next(Api.OFFSET_COMMIT, 30.0, half="request")
            await client.send(commit(1))
            await trio.sleep(29.0)
            assert stored(cluster) == []
            assert committed(await client.receive()) == ErrorCode.NONE
            assert (stored(cluster), trio.current_time()) == ([1], 30.0)

    async def test_delayed_request_meets_the_state_at_its_arrival(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            member_id = await member(client)
            cluster.delay_next(Api.HEARTBEAT, 11.0, half="request")
            assert (await client.ask(heartbeat(member_id))).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    async def test_delay_counts_from_a_ready_response(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client), connected(cluster) as other:
            leader = await member(client)
            second = (await other.ask(join())).member_id
            cluster.delay_next(Api.JOIN_GROUP, 2.0)
            await other.send(join(second))  # held until the leader is back
            await trio.sleep(5.0)
            await client.ask(join(leader))
            assert (await other.receive()).generation_id == 2
            assert trio.current_time() == 7.0

    async def test_delay_does_not_affect_other_connections(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client), connected(cluster) as other:
            cluster.delay_next(Api.OFFSET_COMMIT, 30.0)
            await client.send(commit(1))
            await client.send(request(ApiVersionsRequest, 0))
            await trio.testing.wait_all_tasks_blocked()
            await other.ask(request(ApiVersionsRequest, 0))
            assert trio.current_time() == 0.0
            await client.receive()
            await client.receive()
            assert trio.current_time() == 30.0, "the response after a delayed one is delayed too"


class TestDrop:
    async def test_dropped_response_closes_the_connection_after_the_effect(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.drop_next(Api.OFFSET_COMMIT)
            await client.send(commit(1))
            await client.assert_hung_up()
            assert stored(cluster) == [1]
            async with connected(cluster) as again:
                assert committed(await again.ask(commit(2))) == ErrorCode.NONE

    async def test_dropped_request_closes_the_connection_without_effect(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.drop_next(Api.OFFSET_COMMIT, half="request")
            await client.send(commit(1))
            await client.assert_hung_up()
            assert stored(cluster) == []

    @pytest.mark.parametrize(("half", "done"), [("request", []), ("answer", [1])])
    async def test_silent_connection_stays_open_without_responses(
        self, half: Any, done: list[int], autojump_clock: MockClock
    ) -> None:
        async with one_broker() as (cluster, client), connected(cluster) as other:
            cluster.drop_next(Api.OFFSET_COMMIT, half=half, hang_up=False)
            await client.send(commit(1))
            await client.send(commit(2))  # the broker never reads this one either
            with trio.move_on_after(3600) as timeout:
                await client.stream.receive_some()
            assert timeout.cancelled_caught
            assert stored(cluster) == done
            await other.ask(request(ApiVersionsRequest, 0))

    async def test_response_to_a_held_join_is_dropped_when_ready(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client), connected(cluster) as other:
            leader = await member(client)
            second = (await other.ask(join())).member_id
            cluster.drop_next(Api.JOIN_GROUP)
            await other.send(join(second))
            await trio.testing.wait_all_tasks_blocked()
            assert len((await client.ask(join(leader))).members) == 2
            await other.assert_hung_up()
            assert len(cluster.describe_group(GROUP).members) == 2, "the client does not know that it is a member"


class TestFaultSelection:
    async def test_fault_applies_to_one_broker(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster(brokers=2, in_memory=True) as cluster:
            cluster.fail_next(Api.API_VERSIONS, REFUSED, broker_id=1)
            codes = []
            for broker in (0, 1, 1):
                async with connected(cluster, broker) as client:
                    codes.append((await client.ask(request(ApiVersionsRequest, 0))).error_code)
            assert codes == [ErrorCode.NONE, REFUSED, ErrorCode.NONE]

    async def test_fault_applies_to_one_client(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client), connected(cluster, client_id="other") as other:
            cluster.fail_next(Api.OFFSET_COMMIT, REFUSED, client_id="other")
            codes = [committed(await each.ask(commit(1))) for each in (client, other, other)]
            assert codes == [ErrorCode.NONE, REFUSED, ErrorCode.NONE]

    async def test_fault_applies_to_one_group(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.fail_next(Api.OFFSET_COMMIT, REFUSED, group_id="other")
            codes = [committed(await client.ask(commit(1, group=group))) for group in (GROUP, "other", "other")]
            assert codes == [ErrorCode.NONE, REFUSED, ErrorCode.NONE]

    async def test_fault_applies_to_one_group_of_a_request(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.fail_next(Api.OFFSET_FETCH, REFUSED, group_id="other")
            answers = [await client.ask(fetch_offsets(*groups)) for groups in ((GROUP,), (GROUP, "other"))]
            assert [{group.error_code for group in answer.groups} for answer in answers] == [{0}, {REFUSED}]

    async def test_faults_apply_in_the_order_of_arming(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.fail_next(Api.HEARTBEAT, ErrorCode.NOT_COORDINATOR, group_id=GROUP)
            cluster.fail_next(Api.HEARTBEAT, ErrorCode.COORDINATOR_NOT_AVAILABLE, 2)
            codes = [(await client.ask(heartbeat("m"))).error_code for _ in range(4)]
            assert codes == [
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.UNKNOWN_MEMBER_ID,
            ]


class TestArmedFaults:
    async def test_remaining_faults_are_visible(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            assert cluster.faults == ()
            cluster.fail_next(Api.HEARTBEAT, REFUSED, 2)
            cluster.drop_next(Api.FETCH, None, client_id="c")
            await client.ask(heartbeat("m"))
            assert cluster.faults == (
                Fault(api=Api.HEARTBEAT, action=ErrorResponse(REFUSED), remaining=1),
                Fault(api=Api.FETCH, action=Drop(), remaining=None, client_id="c"),
            )
            await client.ask(heartbeat("m"))
            assert [fault.api for fault in cluster.faults] == [Api.FETCH]

    async def test_fault_without_a_count_applies_until_cleared(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.fail_next(Api.HEARTBEAT, REFUSED, None)
            assert {(await client.ask(heartbeat("m"))).error_code for _ in range(20)} == {REFUSED}
            cluster.clear_faults()
            assert cluster.faults == ()
            assert (await client.ask(heartbeat("m"))).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize("count", [0, -1])
    async def test_fault_for_no_request_raises_value_error(self, count: int, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, _):
            with pytest.raises(ValueError, match=f"at least one request, not {count}"):
                cluster.fail_next(Api.HEARTBEAT, REFUSED, count)


class TestDisconnect:
    async def test_disconnect_closes_only_one_clients_connections(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client), connected(cluster, client_id="other") as other:
            for each in (client, other):
                await each.ask(request(ApiVersionsRequest, 0))
            cluster.disconnect(client_id="other")
            await other.assert_hung_up()
            assert (await client.ask(request(ApiVersionsRequest, 0))).error_code == ErrorCode.NONE

    async def test_disconnect_of_an_unknown_broker_is_refused(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, _):
            with pytest.raises(Refused, match=r"unknown broker 7 \(known: 0\)"):
                cluster.disconnect(7)


class TestFreeze:
    async def test_frozen_broker_answers_after_unfreezing(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.freeze_broker(0)
            cluster.freeze_broker(0)  # is frozen already
            async with connected(cluster) as other:
                await client.send(commit(1))
                await other.send(commit(2))
                await trio.sleep(3600)
                assert stored(cluster) == []
                cluster.unfreeze_broker(0)
                assert [committed(await each.receive()) for each in (client, other)] == [0, 0]
            assert trio.current_time() == 3600

    async def test_response_ready_in_a_frozen_broker_waits(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.delay_next(Api.OFFSET_COMMIT, 1.0)
            await client.send(commit(1))
            await trio.testing.wait_all_tasks_blocked()
            cluster.freeze_broker(0)
            with trio.move_on_after(60) as timeout:
                await client.receive()
            assert timeout.cancelled_caught

    async def test_freeze_does_not_affect_other_brokers(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster(brokers=2, in_memory=True) as cluster:
            cluster.freeze_broker(0)
            async with connected(cluster, 1) as client:
                assert (await client.ask(request(ApiVersionsRequest, 0))).error_code == ErrorCode.NONE

    async def test_broker_stopped_while_frozen_can_be_started(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.freeze_broker(0)
            await client.send(commit(1))
            await trio.testing.wait_all_tasks_blocked()
            await cluster.stop_broker(0)
            await client.assert_hung_up()
            with pytest.raises(Refused, match="broker 0 is not up"):
                cluster.freeze_broker(0)
            await cluster.start_broker(0)
            async with connected(cluster) as again:
                assert (await again.ask(request(ApiVersionsRequest, 0))).error_code == ErrorCode.NONE
            assert stored(cluster) == [], "a request that was pending when it stopped was never handled"

    async def test_cluster_closes_with_a_frozen_broker(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.freeze_broker(0)
            await client.send(commit(1))


class TestExpireMember:
    async def test_expired_member_is_removed_and_the_group_rebalances(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client), connected(cluster) as other:
            first = await member(client)
            second = (await other.ask(join())).member_id
            await other.send(join(second))
            await trio.testing.wait_all_tasks_blocked()
            cluster.expire_member(GROUP, first)
            joined = await other.receive()
            assert (joined.generation_id, joined.leader, trio.current_time()) == (2, second, 0.0)
            assert (await client.ask(heartbeat(first))).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    async def test_expiry_of_the_last_member_leaves_an_empty_group(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.expire_member(GROUP, await member(client))
            assert cluster.describe_group(GROUP).state is GroupState.EMPTY

    async def test_pending_member_id_can_be_expired(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            pending = (await client.ask(join())).member_id
            cluster.expire_member(GROUP, pending)
            assert (await client.ask(join(pending))).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize("group", [GROUP, "none"])
    async def test_expiry_of_an_unknown_member_is_refused(self, group: str, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            await member(client)
            with pytest.raises(Refused, match=f"group '{group}' has no member 'ghost'"):
                cluster.expire_member(group, "ghost")


class TestMoves:
    async def test_moved_coordinator_is_loading_for_its_load_time(self, autojump_clock: MockClock) -> None:
        async with EmbeddedCluster({"orders": 1}, brokers=2, in_memory=True) as cluster:
            cluster.move_coordinator(GROUP, 0)
            async with connected(cluster, 0) as client, connected(cluster, 1) as other:
                member_id = await member(client)
                await client.ask(commit(1, generation_id_or_member_epoch=1, member_id=member_id))
                cluster.move_coordinator(GROUP, 1, load_time=5.0)
                assert (await other.ask(join(member_id))).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                assert (await other.ask(heartbeat(member_id))).error_code == ErrorCode.NONE
                with pytest.raises(Refused, match="is loading"):
                    cluster.committed(GROUP)
                await trio.sleep(5.0)
                assert (await other.ask(join(member_id))).generation_id == 2
                assert stored(cluster) == [1]

    async def test_added_partitions_are_visible_and_writable(self, autojump_clock: MockClock) -> None:
        async with one_broker() as (cluster, client):
            cluster.add_partitions("orders", 5)
            (topic,) = (await client.ask(request(MetadataRequest, 12, topics=[{"name": "orders"}]))).topics
            assert [p.partition_index for p in topic.partitions] == [0, 1, 2, 3, 4]
            assert cluster.produce("orders", 4, b"v") == 0
            with pytest.raises(Refused, match="has 5 partitions"):
                cluster.add_partitions("orders", 5)
