"""Reads groups' committed offsets, and the starts and ends of logs, from a cluster. Trio.

A fact that cannot be read is recorded with the reason, and the audit continues without it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from sarameya import (
    LOG_END,
    LOG_START,
    ClusterMetadata,
    ConfigError,
    ErrorCode,
    GroupAdmin,
    SarameyaError,
    TopicPartition,
)
from sarameya.service import Cluster, log_client_event
from sarameya_handlers.audit.facts import GroupFacts, LogSpan
from sarameya_handlers.landing.links import UNKNOWN_EPOCH, Link


@asynccontextmanager
async def open_admin(place: Cluster) -> AsyncIterator[GroupAdmin]:
    """Connect to a cluster for a few requests. Brokers close connections that are idle for long."""
    async with GroupAdmin(place.bootstrap_servers, place.config, log_client_event) as admin:
        yield admin


async def ask_groups(place: Cluster, groups: Iterable[str]) -> dict[str, GroupFacts]:
    """Return the committed offsets of each group.

    Raises:
        ConfigError: The cluster's options are invalid.
    """
    wanted = sorted(set(groups))
    try:
        async with open_admin(place) as admin:
            return {group: await group_facts(admin, group) for group in wanted}
    except ConfigError:
        raise
    except SarameyaError as error:
        return {group: GroupFacts(problem=str(error)) for group in wanted}


async def ask_logs(place: Cluster, heads: Iterable[Link]) -> dict[TopicPartition, LogSpan]:
    """Return the logs of these heads' partitions.

    Raises:
        ConfigError: The cluster's options are invalid.
    """
    known = list(heads)
    try:
        async with open_admin(place) as admin:
            return await log_facts(admin, known)
    except ConfigError:
        raise
    except SarameyaError as error:
        return {head.key.topic_partition: LogSpan(problem=str(error)) for head in known}


async def group_facts(admin: GroupAdmin, group: str) -> GroupFacts:
    """Return the group's committed offsets, or the reason why they are unknown."""
    try:
        return GroupFacts(committed=await admin.committed(group))
    except SarameyaError as error:
        return GroupFacts(problem=str(error))


async def log_facts(
    admin: GroupAdmin, heads: Iterable[Link], others: Iterable[TopicPartition] = ()
) -> dict[TopicPartition, LogSpan]:
    """Return the logs of these heads' partitions, and of others.

    Raises:
        SarameyaError: The cluster does not respond.
    """
    epochs: dict[TopicPartition, int] = dict.fromkeys(others, UNKNOWN_EPOCH)
    for head in heads:
        where = head.key.topic_partition
        epochs[where] = max(epochs.get(where, UNKNOWN_EPOCH), head.leader_epoch)
    if not epochs:
        return {}
    metadata = await admin.metadata({partition.topic for partition in epochs})
    existing = [partition for partition in sorted(epochs) if metadata.partition(partition) is not None]
    starts = await admin.log_offsets(existing, LOG_START)
    ends = await admin.log_offsets(existing, LOG_END)
    epoch_ends = await admin.epoch_ends(epochs)
    return {
        partition: LogSpan(
            start=starts.found.get(partition),
            end=ends.found.get(partition),
            epoch_end=epoch_ends.get(partition),
            topic_id=_topic_id(metadata, partition),
            problem=_absence(metadata, partition) or starts.missing.get(partition) or ends.missing.get(partition, ""),
        )
        for partition in sorted(epochs)
    }


def _absence(metadata: ClusterMetadata, partition: TopicPartition) -> str:
    """Return why the partition does not exist; empty if it does."""
    if metadata.partition(partition) is not None:
        return ""
    code = metadata.missing([partition.topic]).get(partition.topic)
    return ErrorCode.describe(code) if code else "there is no such partition"


def _topic_id(metadata: ClusterMetadata, partition: TopicPartition) -> str:
    topic = metadata.topics.get(partition.topic)
    return topic.topic_id.hex if topic is not None and topic.topic_id is not None else ""
