"""Requests to the group coordinator: commands of the membership machine, commits, offset fetches.

This module only sends requests and returns the responses. The machine (`protocol/membership/machine.py`) and the offset
manager interpret them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import attrs
import trio
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from sarameya.config import Config
from sarameya.errors import (
    ConnectionLostError,
    RequestTimeoutError,
    SarameyaError,
    UnsupportedVersionError,
)
from sarameya.model import CommittedOffset, TopicPartition, by_topic
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.protocol.cluster.metadata import Broker
from sarameya.protocol.membership.messages import (
    GroupMember,
    HeartbeatAnswered,
    JoinAnswered,
    LeaveAnswered,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    SyncAnswered,
    Unanswered,
)
from sarameya.protocol.rebalance import PROTOCOL_TYPE
from sarameya.protocol.versions import Api

_HELD_TIMEOUTS = (0.5, 0.5, 1.0, 2.0)
"""Wait for a join or sync that may be held or lost, as a fraction of the session timeout.

The first number is for the first attempt, the next ones for attempts after one, two, three or more without a response.
"""

_JOIN_MARGIN = 5.0
"""Seconds beyond the rebalance timeout after which a held join counts as unanswered. Kafka's own clients use 5 s."""

_STATIC_SINCE = 5
"""First version of JoinGroup with static members (KIP-345)."""

_LAST_WITH_RETENTION = 4
"""Last version of OffsetCommit that says how long the commits are kept (KIP-211)."""


@attrs.frozen(slots=True)
class Located:
    """Response to FindCoordinator: the coordinator's address or, if `code` is not 0, the error."""

    code: int
    message: str = ""
    node_id: int = -1
    host: str = ""
    port: int = -1


@attrs.frozen(slots=True)
class FetchedOffsets:
    """Response to an offset fetch: the group's own code, and the code and commit of each partition."""

    code: int
    partitions: Mapping[TopicPartition, tuple[int, CommittedOffset | None]] = attrs.field(factory=dict)


class CoordinatorClient:
    """Requests of one member to its group's coordinator. Each raises as `BrokerPool.request` does."""

    def __init__(self, pool: BrokerPool, group: str, config: Config) -> None:
        self._pool = pool
        self._group = group
        self._config = config
        self._key = {"key": group, "key_type": 0}

    async def find(self) -> Located:
        """Ask any broker for the group's coordinator, and add its address to the pool. Raises as `request_any` does."""
        answer = await self._pool.request_any(FindCoordinatorRequest, **self._key)
        code, message, host = answer.error_code, answer.error_message or "", answer.host or ""
        if not code:
            self._pool.learn(Broker(answer.node_id, host, answer.port))
        return Located(code, message, answer.node_id, host, answer.port)

    async def join(
        self, node_id: int, command: SendJoin, protocols: Iterable[tuple[str, bytes]]
    ) -> JoinAnswered | Unanswered:
        """Send a join, which the broker holds until the group is complete.

        A member that continues to read (`command.owned`) must learn soon if the join is lost and the group removes it.
        A member that owns nothing waits as long as the others may take to revoke their partitions.

        Args:
            node_id: The coordinator.
            command: The machine's command.
            protocols: (assignor name, encoded subscription) pairs, the preferred assignor first.

        Raises:
            UnsupportedVersionError: The member is static, and the broker is too old for that.
        """
        config = self._config
        if config.group_instance_id is not None:
            await self._check_static(node_id)
        answer = await self._held(
            command.token,
            node_id,
            JoinGroupRequest,
            self._held_timeout(command.silences) if command.owned else config.rebalance_timeout + _JOIN_MARGIN,
            group_id=self._group,
            session_timeout_ms=_milliseconds(self._config.session_timeout),
            rebalance_timeout_ms=_milliseconds(self._config.rebalance_timeout),
            member_id=command.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols
            ],
            reason=command.reason[:255] or None,
        )
        if isinstance(answer, Unanswered):
            return answer
        return JoinAnswered(
            token=command.token,
            code=answer.error_code,
            member_id=answer.member_id or "",
            generation=answer.generation_id,
            protocol=answer.protocol_name or "",
            leader=answer.leader or "",
            members=tuple(GroupMember(m.member_id, m.group_instance_id, m.metadata) for m in answer.members),
            skip_assignment=bool(answer.skip_assignment),
        )

    async def _check_static(self, node_id: int) -> None:
        """Refuse a broker without static members: it would silently treat this one as a dynamic member.

        Raises:
            UnsupportedVersionError: The broker is too old.
        """
        connection = await self._pool.connection(node_id, Purpose.COORDINATOR)
        version = connection.version_of(Api.JOIN_GROUP)
        if version < _STATIC_SINCE:
            raise UnsupportedVersionError(
                f"group_instance_id = {self._config.group_instance_id!r}: the coordinator, broker {node_id} at "
                f"{connection.address}, speaks JoinGroup up to version {version}, and static membership needs version "
                f"{_STATIC_SINCE} (Kafka 2.3); leave group_instance_id out, or upgrade the broker"
            )

    async def sync(self, node_id: int, command: SendSync) -> SyncAnswered | Unanswered:
        """Send a sync, which the broker holds until the leader's sync has arrived. A follower sends no assignments.

        The first attempt counts as unanswered after half the session timeout. So if the sync was lost, there is time to
        send it again before the session expires.
        """
        generation = command.generation
        answer = await self._held(
            command.token,
            node_id,
            SyncGroupRequest,
            self._held_timeout(command.silences),
            group_id=self._group,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=generation.protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in sorted(command.assignments.items())
            ],
        )
        if isinstance(answer, Unanswered):
            return answer
        return SyncAnswered(command.token, answer.error_code, bytes(answer.assignment or b""))

    def _held_timeout(self, silences: int) -> float:
        """Return the seconds to wait for a request that may be held or lost, after `silences` without a response.

        The waits grow: repeated loss is unlikely, and each retry leaves the broker with one more connection that it
        neither reads nor closes for a long time.
        """
        return self._config.session_timeout * _HELD_TIMEOUTS[min(silences, len(_HELD_TIMEOUTS) - 1)]

    async def _held(self, token: int, node_id: int, message: type[ApiMessage], timeout: float, **fields: Any) -> Any:
        """Send a request that the coordinator may hold.

        Returns:
            The response, or Unanswered if none arrived in time. The coordinator may hold the request: that is no fault.

        Raises:
            SarameyaError: The connection cannot be opened, or failed.
        """
        connection = await self._pool.connection(node_id, Purpose.COORDINATOR)
        lost: list[str] = []

        async def watch() -> None:
            lost.append(await self._until_lost(node_id))
            # The broker reads nothing else on this connection while it holds the request.
            connection.close(RequestTimeoutError(lost[0]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            answer = await _answer_or_error(connection.request(message, timeout, **fields))
            nursery.cancel_scope.cancel()
        if isinstance(answer, RequestTimeoutError):
            return Unanswered(token, str(answer))
        if isinstance(answer, SarameyaError):
            raise answer
        return answer

    async def _until_lost(self, node_id: int) -> str:
        """Wait until the group has another coordinator, or this broker does not respond. Return the reason.

        A held request does not show whether its broker is alive. So two requests are sent every third of
        `Config.request_timeout`: any broker is asked for the coordinator, and this broker gets a request that it
        answers at once. Other failures of these two do not affect the held request.
        """
        seconds = self._config.request_timeout / 3
        while True:
            await trio.sleep(seconds)
            with suppress(SarameyaError):
                located = await self.find()
                if not located.code and located.node_id != node_id:
                    return f"the coordinator is broker {located.node_id} now, not {node_id}"
            with suppress(SarameyaError):
                try:
                    await self._pool.request(node_id, Purpose.METADATA, FindCoordinatorRequest, seconds, **self._key)
                except (ConnectionLostError, RequestTimeoutError) as error:
                    return str(error)

    async def heartbeat(self, node_id: int, command: SendHeartbeat) -> HeartbeatAnswered:
        """Send a heartbeat. It times out after half the session timeout, so that there is time for another."""
        answer = await self._pool.request(
            node_id,
            Purpose.COORDINATOR,
            HeartbeatRequest,
            self._config.session_timeout / 2,
            group_id=self._group,
            generation_id=command.generation.id,
            member_id=command.generation.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        return HeartbeatAnswered(command.token, answer.error_code)

    async def leave(self, node_id: int, command: SendLeave) -> LeaveAnswered:
        """Leave the group and send the reason (KIP-800)."""
        answer = await self._pool.request(
            node_id,
            Purpose.LEAVE,
            LeaveGroupRequest,
            self._config.close_timeout,
            group_id=self._group,
            member_id=command.member_id,
            members=[
                LeaveGroupRequest.MemberIdentity(
                    member_id=command.member_id,
                    group_instance_id=self._config.group_instance_id,
                    reason=command.reason[:255],
                )
            ],
        )
        code = answer.error_code or next((m.error_code for m in answer.members or () if m.error_code), 0)
        return LeaveAnswered(command.token, code)

    async def commit(
        self,
        node_id: int,
        generation: int,
        member_id: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
        *,
        keep_for: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Commit offsets under a generation. Return the error code of each partition, 0 for success.

        Args:
            node_id: The coordinator.
            generation: The generation.
            member_id: The member.
            offsets: The commit of each partition.
            keep_for: Seconds after which the commits expire; None: as the brokers are configured
                (`offsets.retention.minutes`). Later versions of the request do not have it (KIP-211), nor leader
                epochs. Brokers still comply.
        """
        request = OffsetCommitRequest
        answer = await self._pool.request(
            node_id,
            Purpose.OFFSETS,
            request,
            newest=None if keep_for is None else _LAST_WITH_RETENTION,
            group_id=self._group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=self._config.group_instance_id,
            retention_time_ms=-1 if keep_for is None else int(keep_for * 1000),
            topics=[
                request.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        request.OffsetCommitRequestTopic.OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offsets[TopicPartition(topic, number)].offset,
                            committed_leader_epoch=offsets[TopicPartition(topic, number)].leader_epoch,
                            committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(list(offsets)).items()
            ],
        )
        return {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in answer.topics
            for partition in topic.partitions
        }

    async def fetch_offsets(self, node_id: int, partitions: Iterable[TopicPartition]) -> FetchedOffsets:
        """Return the group's committed offsets of all `partitions`, in one request for stable offsets (KIP-447)."""
        request = OffsetFetchRequest
        answer = await self._pool.request(
            node_id,
            Purpose.OFFSETS,
            request,
            group_id=self._group,
            topics=[
                request.OffsetFetchRequestTopic(name=topic, partition_indexes=list(numbers))
                for topic, numbers in by_topic(list(partitions)).items()
            ],
            require_stable=True,
        )
        return FetchedOffsets(
            answer.error_code,
            {
                TopicPartition(topic.name, partition.partition_index): (
                    partition.error_code,
                    CommittedOffset(
                        partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                    )
                    if partition.committed_offset >= 0
                    else None,
                )
                for topic in answer.topics
                for partition in topic.partitions
            },
        )


async def _answer_or_error(answer: Awaitable[Any]) -> Any:
    """Await a response. Return its error instead of raising it: a nursery would wrap it in an exception group."""
    try:
        return await answer
    except SarameyaError as error:
        return error


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
