"""The steps of transcripts about groups: a function for each API, with the values of a correct client as defaults.

Requests have the fields of all versions; a play omits those that its version lacks. Times are in milliseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sarameya.protocol.versions import Api
from tests.transcripts.script import Await, Generation, Group, Id, Instance, Look, Protocol, Send, Sleep, Step

__all__ = [
    "GROUP",
    "SIMPLE",
    "Await",
    "Generation",
    "Id",
    "Look",
    "Sleep",
    "Step",
    "commit",
    "delete_groups",
    "delete_offsets",
    "describe",
    "enter",
    "fetch_offsets",
    "find_coordinator",
    "heartbeat",
    "join",
    "leave",
    "leaver",
    "list_groups",
    "pair",
    "single",
    "subscription",
    "sync",
]

GROUP = Group()
SESSION = 30_000
REBALANCE = 30_000

SIMPLE: Mapping[str, Any] = {"member": "", "generation": -1}
"""The fields of a commit from a consumer that is not a member of the group."""

Protocols = Mapping[str, bytes] | Sequence[str]


def subscription(*topics: str) -> bytes:
    """Encode a consumer's subscription (version 0), which brokers parse too."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


READS_ORDERS = subscription("orders")


def join(
    by: str,
    *,
    group: Any = GROUP,
    member: Any = None,
    instance: str | None = None,
    protocol_type: str = "consumer",
    protocols: Protocols = ("range",),
    session: int = SESSION,
    rebalance: int = REBALANCE,
    held: bool = False,
    retry_with_id: bool = False,
    **where: bool,
) -> Send:
    """Send a JoinGroup, with the connection's latest member id. Protocols without metadata subscribe to `orders`."""
    if not isinstance(protocols, Mapping):
        protocols = dict.fromkeys(protocols, READS_ORDERS)
    fields = {
        "group_id": group,
        "session_timeout_ms": session,
        "rebalance_timeout_ms": rebalance,
        "member_id": Id(by) if member is None else member,
        "group_instance_id": instance,
        "protocol_type": protocol_type,
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols.items()],
        "reason": "transcript",
    }
    return Send(by, Api.JOIN_GROUP, fields, may_be_held=held, retry_with_id=retry_with_id, **where)


def enter(by: str, **fields: Any) -> Send:
    """Join as a client does: retry with the new member id if the broker requires one."""
    return join(by, retry_with_id=True, **fields)


def sync(
    by: str,
    assigned: Mapping[str, bytes] | None = None,
    *,
    group: Any = GROUP,
    member: Any = None,
    generation: Any = None,
    instance: Any = None,
    protocol_type: Any = None,
    protocol_name: Any = None,
    held: bool = False,
    **where: bool,
) -> Send:
    """Send a SyncGroup. `assigned`: a leader's assignment of each connection."""
    fields = {
        "group_id": group,
        "generation_id": Generation(by) if generation is None else generation,
        "member_id": Id(by) if member is None else member,
        "group_instance_id": Instance(by) if instance is None else instance,
        "protocol_type": Protocol(by, "type") if protocol_type is None else protocol_type,
        "protocol_name": Protocol(by) if protocol_name is None else protocol_name,
        "assignments": [{"member_id": Id(to), "assignment": part} for to, part in (assigned or {}).items()],
    }
    return Send(by, Api.SYNC_GROUP, fields, may_be_held=held, **where)


def heartbeat(
    by: str, *, group: Any = GROUP, member: Any = None, generation: Any = None, instance: Any = None, **where: bool
) -> Send:
    fields = {
        "group_id": group,
        "generation_id": Generation(by) if generation is None else generation,
        "member_id": Id(by) if member is None else member,
        "group_instance_id": Instance(by) if instance is None else instance,
    }
    return Send(by, Api.HEARTBEAT, fields, **where)


def leaver(member: Any = "", instance: str | None = None) -> Mapping[str, Any]:
    """Return the structure for a member to remove, as in LeaveGroup from version 3 on."""
    return {"member_id": member, "group_instance_id": instance, "reason": "transcript"}


def leave(
    by: str,
    *leavers: Mapping[str, Any],
    none: bool = False,
    group: Any = GROUP,
    member: Any = None,
    instance: Any = None,
    **where: bool,
) -> Send:
    """Send a LeaveGroup for `leavers`, or `none`, or the connection's own member (versions before 3: for `member`)."""
    own = {
        "member_id": Id(by) if member is None else member,
        "group_instance_id": Instance(by) if instance is None else instance,
        "reason": "transcript",
    }
    fields = {"group_id": group, "member_id": own["member_id"], "members": [] if none else list(leavers) or [own]}
    return Send(by, Api.LEAVE_GROUP, fields, **where)


def commit(
    by: str,
    offsets: Mapping[tuple[str, int], int] | None = None,
    *,
    group: Any = GROUP,
    member: Any = None,
    generation: Any = None,
    instance: Any = None,
    metadata: str | None = "note",
    epoch: int = -1,
    **where: bool,
) -> Send:
    """Send an OffsetCommit of an offset for each (topic, partition)."""
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for (topic, number), offset in ({("orders", 0): 7} if offsets is None else offsets).items():
        entry = {
            "partition_index": number,
            "committed_offset": offset,
            "committed_leader_epoch": epoch,
            "committed_metadata": metadata,
        }
        topics.setdefault(topic, []).append(entry)
    fields = {
        "group_id": group,
        "generation_id_or_member_epoch": Generation(by) if generation is None else generation,
        "member_id": Id(by) if member is None else member,
        "group_instance_id": Instance(by) if instance is None else instance,
        "retention_time_ms": -1,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
    return Send(by, Api.OFFSET_COMMIT, fields, **where)


ORDERS: Mapping[str, Sequence[int]] = {"orders": (0, 1)}


def fetch_offsets(
    by: str, topics: Mapping[str, Sequence[int]] | None = ORDERS, *, groups: Iterable[Any] = (GROUP,), **where: bool
) -> Send:
    """Send an OffsetFetch. `topics` None: all with a commit. Versions before 8 request the first group only."""
    groups = list(groups)
    wanted = None
    if topics is not None:
        wanted = [{"name": name, "partition_indexes": list(numbers)} for name, numbers in topics.items()]
    fields = {
        "group_id": groups[0],
        "topics": wanted,
        "groups": [{"group_id": group, "topics": wanted} for group in groups],
        "require_stable": True,
    }
    return Send(by, Api.OFFSET_FETCH, fields, **where)


def find_coordinator(by: str, *groups: Any, key_type: int = 0, **where: bool) -> Send:
    keys = list(groups) or [GROUP]
    return Send(by, Api.FIND_COORDINATOR, {"key": keys[0], "key_type": key_type, "coordinator_keys": keys}, **where)


def describe(by: str = "admin", *groups: Any, operations: bool = False, **where: bool) -> Send:
    fields = {"groups": list(groups) or [GROUP], "include_authorized_operations": operations}
    return Send(by, Api.DESCRIBE_GROUPS, fields, **where)


def list_groups(by: str = "admin", *states: str, **where: bool) -> Send:
    """Send a ListGroups. Only the play's own groups are recorded."""
    return Send(by, Api.LIST_GROUPS, {"states_filter": list(states)}, **where)


def delete_groups(by: str = "admin", *groups: Any, **where: bool) -> Send:
    return Send(by, Api.DELETE_GROUPS, {"groups_names": list(groups) or [GROUP]}, **where)


def delete_offsets(
    by: str = "admin", topics: Mapping[str, Sequence[int]] | None = None, *, group: Any = GROUP, **where: bool
) -> Send:
    wanted = {"orders": (0,)} if topics is None else topics
    fields = {
        "group_id": group,
        "topics": [
            {"name": name, "partitions": [{"partition_index": number} for number in numbers]}
            for name, numbers in wanted.items()
        ],
    }
    return Send(by, Api.OFFSET_DELETE, fields, **where)


# The first steps of many transcripts


def single(by: str = "a", **fields: Any) -> tuple[Step, ...]:
    """Return the steps to a Stable group of one member."""
    return enter(by, **fields), sync(by, {by: b"all"})


def pair(a: Mapping[str, Any] | None = None, b: Mapping[str, Any] | None = None) -> tuple[Step, ...]:
    """Return the steps to a Stable group of a (the leader) and b, in generation 2; both have their assignment."""
    a, b = a or {}, b or {}
    return (
        *single("a", **a),
        enter("b", held=True, **b),
        enter("a", **a),
        Await("b"),
        sync("a", {"a": b"one", "b": b"two"}),
        sync("b"),
    )
