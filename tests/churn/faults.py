"""Faults of a group under churn. Each function causes one fault; it returns False if this is not possible now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import trio

from sarameya import TopicPartition
from sarameya.embedded.faults import Half
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api
from tests.churn.members import GROUP, TOPIC

if TYPE_CHECKING:
    from tests.churn.simulation import World

MAX_MEMBERS = 6
MAX_PARTITIONS = 12

CODES = {
    Api.FIND_COORDINATOR: [ErrorCode.COORDINATOR_NOT_AVAILABLE],
    Api.JOIN_GROUP: [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    ],
    Api.SYNC_GROUP: [
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ],
    Api.HEARTBEAT: [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    ],
    Api.OFFSET_COMMIT: [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
    ],
    Api.OFFSET_FETCH: [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS],
    Api.FETCH: [ErrorCode.NOT_LEADER_OR_FOLLOWER],
}


async def start(world: World) -> bool:
    if len(world.crew.alive) >= MAX_MEMBERS:
        return False
    world.crew.start()
    return True


async def start_static(world: World) -> bool:
    """Start a static member with an instance id that no living member has: it would fence that member."""
    names = {member.instance for member in world.crew.alive}
    free = [name for name in ("i-0", "i-1") if name not in names]
    if not free or len(world.crew.alive) >= MAX_MEMBERS:
        return False
    world.crew.start(instance=world.rng.choice(free))
    return True


async def close(world: World) -> bool:
    if len(world.crew.alive) < 2:
        return False
    world.crew.close(world.rng.choice(world.crew.alive))
    return True


async def crash(world: World) -> bool:
    if len(world.crew.alive) < 2:
        return False
    world.crew.crash(world.rng.choice(world.crew.alive))
    return True


async def freeze(world: World) -> bool:
    """Cut a member off for a while, maybe longer than the session timeout. Its handlers process buffered messages."""
    awake = [member for member in world.crew.alive if member.network.alive]
    if not awake:
        return False
    member = world.rng.choice(awake)
    member.network.alive = False
    await trio.sleep(world.rng.uniform(1, 30))
    if member in world.crew.alive:
        member.network.alive = True
    return True


async def move_coordinator(world: World) -> bool:
    """Move the coordinator to a random broker, maybe the same broker, which may need time to load the group."""
    world.cluster.move_coordinator(GROUP, world.rng.choice(_up(world)), load_time=world.rng.choice((0.0, 0.0, 4.0)))
    return True


async def move_leader(world: World) -> bool:
    world.cluster.move_leader(TOPIC, world.rng.randrange(world.partitions), world.rng.choice(_up(world)))
    return True


async def bounce_broker(world: World) -> bool:
    """Stop a broker for a while; the other brokers lead and coordinate meanwhile."""
    up = _up(world)
    if len(up) < 2:
        return False
    node_id = world.rng.choice(up)
    world.down.add(node_id)
    await world.cluster.stop_broker(node_id)
    await trio.sleep(world.rng.uniform(0.1, 20))
    await world.cluster.start_broker(node_id)
    world.down.discard(node_id)
    return True


def _up(world: World) -> list[int]:
    return [node_id for node_id in range(3) if node_id not in world.down]


async def disconnect(world: World) -> bool:
    world.cluster.disconnect(world.rng.choice((None, 0, 1, 2)))
    return True


async def refuse(world: World) -> bool:
    api = world.rng.choice(sorted(CODES, key=int))
    world.cluster.fail_next(api, world.rng.choice(CODES[api]), world.rng.randrange(1, 4))
    return True


async def lose(world: World) -> bool:
    """Delay or drop requests or responses; a drop may close the connection, too."""
    api = world.rng.choice(sorted(CODES, key=int))
    half: Half = world.rng.choice(("request", "answer"))
    count = world.rng.randrange(1, 4)
    if world.rng.random() < 0.5:
        world.cluster.delay_next(api, world.rng.uniform(0.1, 20), count, half=half)
    else:
        world.cluster.drop_next(api, count, half=half, hang_up=world.rng.random() < 0.5)
    return True


async def freeze_broker(world: World) -> bool:
    """Freeze a broker for a while: it accepts connections and requests, and does not respond."""
    node_id = world.rng.choice(_up(world))
    world.cluster.freeze_broker(node_id)
    try:
        await trio.sleep(world.rng.uniform(0.1, 15))
    finally:
        world.cluster.unfreeze_broker(node_id)
    return True


async def expire(world: World) -> bool:
    members = world.cluster.describe_group(GROUP).members
    if not members:
        return False
    world.cluster.expire_member(GROUP, world.rng.choice(members).member_id)
    return True


async def pause(world: World) -> bool:
    """Pause a partition or all partitions of a member, and resume them later."""
    if not world.crew.alive:
        return False
    group = world.rng.choice(world.crew.alive).group
    partition = TopicPartition(TOPIC, world.rng.randrange(world.partitions))
    everything = world.rng.random() < 0.3
    if everything:
        group.pause_all()
    else:
        group.pause([partition])
    try:
        await trio.sleep(world.rng.uniform(1, 40))
    finally:
        if everything:
            group.resume_all()
        else:
            group.resume([partition])
    return True


async def grow(world: World) -> bool:
    if world.partitions >= MAX_PARTITIONS or world.rng.random() < 0.9:
        return False
    world.partitions += 1
    world.cluster.add_partitions(TOPIC, world.partitions)
    return True


FAULTS: Mapping[str, Callable[[World], Awaitable[bool]]] = {
    "start": start,
    "start_static": start_static,
    "close": close,
    "crash": crash,
    "freeze": freeze,
    "move_coordinator": move_coordinator,
    "move_leader": move_leader,
    "bounce_broker": bounce_broker,
    "disconnect": disconnect,
    "refuse": refuse,
    "lose": lose,
    "freeze_broker": freeze_broker,
    "expire": expire,
    "pause": pause,
    "grow": grow,
}
