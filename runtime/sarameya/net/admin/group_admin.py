"""Admin client for groups. It is not a member of any group.

It lists the groups of every broker, and sends all other requests to the group's coordinator. It retries while a
coordinator moves. Callers interpret the responses and decide about changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import trio

from sarameya.config import Config
from sarameya.error_codes import ErrorCode
from sarameya.errors import KafkaError, SarameyaError
from sarameya.model import NO_GENERATION, CommittedOffset, TopicPartition
from sarameya.net.admin.admin_client import AdminClient, for_each, refusal
from sarameya.net.admin.cluster_admin import ClusterAdmin
from sarameya.net.coordinator import CoordinatorClient
from sarameya.net.retries import Retries
from sarameya.net.transport import Transport
from sarameya.observe import Observer
from sarameya.protocol.cluster.described_groups import CLASSIC, CONSUMER, DEAD, DescribedGroup, ListedGroup, Listing
from sarameya.protocol.cluster.metadata import Broker

_NO_MEMBER = ""

_PASSING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Error codes that go away by themselves: the coordinator has just moved, is loading, or throttles this client."""

_FAILS_WHOLE_COMMIT = _PASSING | {ErrorCode.GROUP_AUTHORIZATION_FAILED}
"""Error codes about the coordinator or the group. They apply to every partition of a commit."""

T = TypeVar("T")


class GroupAdmin(ClusterAdmin):
    """Admin client that describes groups, and changes groups without members.

    Use it as `async with GroupAdmin(servers, config, observer)`. Raises as every ClusterAdmin does.
    """

    def __init__(
        self,
        bootstrap_servers: Sequence[str] | str,
        config: Config,
        observer: Observer,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(bootstrap_servers, config, observer, transport)
        self._coordinators: dict[str, Broker] = {}

    @property
    def _client(self) -> AdminClient:
        return AdminClient(self._pool)

    # -- groups -------------------------------------------------------------------------------------

    async def list_groups(self) -> Listing:
        """Return the groups of every broker, and the failures of brokers that did not answer."""
        brokers = (await self.metadata(())).brokers.values()
        groups: list[ListedGroup] = []
        failures: list[tuple[Broker, SarameyaError]] = []

        async def ask(broker: Broker) -> None:
            try:
                groups.extend(await self._list(broker))
            except SarameyaError as error:
                failures.append((broker, error))

        async with trio.open_nursery() as nursery:
            for broker in brokers:
                nursery.start_soon(ask, broker)
        # While a coordinator moves, its groups may be listed by both brokers.
        by_name = {group.group: group for group in groups}
        failures.sort(key=lambda failure: failure[0].node_id)
        return Listing(tuple(by_name[name] for name in sorted(by_name)), tuple(failures))

    async def describe(self, group: str) -> DescribedGroup:
        """Return the group's state and members."""
        return await self._ask_coordinator(group, "description", partial(self._describe, group))

    async def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """Return all commits of the group, for topics that this principal may see."""
        return await self._ask_coordinator(group, "committed offsets", partial(self._client.committed, group))

    async def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        *,
        keep_for: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Commit offsets for a group without members. The group is created if it does not exist.

        The coordinator refuses the whole commit (UNKNOWN_MEMBER_ID) once the group has a member. A commit whose
        response was lost is sent again: the result is the same.

        Args:
            group: Id of the group.
            offsets: The commit of each partition.
            keep_for: Seconds after which the commits expire; None: as the brokers are configured, by default a week
                after the last commit.

        Returns:
            The error code of each partition, 0 for success.
        """
        return await self._ask_coordinator(group, "commit", partial(self._commit, group, offsets, keep_for))

    async def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Delete commits (KIP-496), except for topics that a member reads. Return the error code of each partition."""
        ask = partial(self._client.delete_offsets, group, tuple(partitions))
        return await self._ask_coordinator(group, "deletion of offsets", ask)

    async def delete_group(self, group: str) -> None:
        """Delete a group without members, and all its commits (KIP-229)."""
        await self._ask_coordinator(group, "deletion", partial(self._client.delete_group, group))

    # -- brokers and retries -------------------------------------------------------------------------

    async def _ask_coordinator(self, group: str, what: str, ask: Callable[[Broker], Awaitable[T]]) -> T:
        """Call `ask` with the group's coordinator. After a passing failure, look up the coordinator and retry."""
        retries = Retries(f"{what} of group {group!r}", self._backoff, self._observer, kind="admin")
        while True:
            try:
                return await ask(await self._coordinator(group))
            except SarameyaError as error:
                if not _may_pass(error):
                    raise
                self._coordinators.pop(group, None)
                await retries.wait(str(error))

    async def _coordinator(self, group: str) -> Broker:
        if group not in self._coordinators:
            located = await CoordinatorClient(self._pool, group, self._config).find()
            if located.code:
                raise refusal(located.code, f"coordinator of group {group!r}", "DESCRIBE")
            self._coordinators[group] = Broker(located.node_id, located.host, located.port)
        return self._coordinators[group]

    async def _list(self, broker: Broker) -> list[ListedGroup]:
        retries = Retries(f"groups of broker {broker.node_id}", self._backoff, self._observer, kind="admin")
        while True:
            try:
                return await self._client.list_groups(broker)
            except KafkaError as error:
                if error.code not in _PASSING:
                    raise
                await retries.wait(ErrorCode.describe(error.code))

    async def _describe(self, group: str, coordinator: Broker) -> DescribedGroup:
        described = await self._client.describe(group, coordinator)
        return described or await self._describe_by_listing(group, coordinator)

    async def _describe_by_listing(self, group: str, coordinator: Broker) -> DescribedGroup:
        """Describe a group from ListGroups: it does not exist, or no request describes groups of its type."""
        listed = next((g for g in await self._list(coordinator) if g.group == group), None)
        if listed is None or listed.type in (None, CLASSIC, CONSUMER):
            return DescribedGroup(group, DEAD, coordinator)
        return DescribedGroup(group, listed.state or "", coordinator, listed.type or "", listed.protocol_type)

    async def _commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        keep_for: float | None,
        coordinator: Broker,
    ) -> dict[TopicPartition, int]:
        commits = {
            partition: offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
            for partition, offset in offsets.items()
        }
        client = CoordinatorClient(self._pool, group, self._config)
        codes = await client.commit(coordinator.node_id, NO_GENERATION, _NO_MEMBER, commits, keep_for=keep_for)
        if (code := next((code for code in codes.values() if code in _FAILS_WHOLE_COMMIT), 0)) != 0:
            raise refusal(code, f"commit for group {group!r}", "READ")
        return for_each(commits, codes)


def _may_pass(error: SarameyaError) -> bool:
    """Return whether a retry may succeed, now or with another broker."""
    return error.retriable or (isinstance(error, KafkaError) and error.code in _PASSING)
