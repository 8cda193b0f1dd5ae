"""Group requests of one consumer group, as kafka-python messages."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)

from tests.embedded.api_kit import ApiKit, request
from tests.embedded.wire_client import WireClient

GROUP = "landers"


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
        assignments=[{"member_id": to, "assignment": assigned} for to, assigned in (assignments or {}).items()],
    )


def heartbeat(member_id: str, generation: int = 1) -> Any:
    return request(HeartbeatRequest, 4, group_id=GROUP, generation_id=generation, member_id=member_id)


def commit(
    offset: int, *, group: str = GROUP, topic: str = "orders", partition: int = 0, version: int = 9, **fields: Any
) -> Any:
    return request(
        OffsetCommitRequest,
        version,
        group_id=group,
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
    """Start a group of one member, Stable in generation 1. Return its member id."""
    member_id = str(kit.answer(join(), coordinator).member_id)
    kit.answer(join(member_id), coordinator)
    kit.answer(sync(member_id, 1, {member_id: b"all of it"}), coordinator)
    return member_id


async def member(client: WireClient) -> str:
    """Start a group of one member over the wire. Return its member id."""
    member_id = str((await client.ask(join())).member_id)
    await client.ask(join(member_id))
    await client.ask(sync(member_id, 1, {member_id: b"all of it"}))
    return member_id
