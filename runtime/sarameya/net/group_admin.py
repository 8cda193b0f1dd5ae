"""What an administrator asks a cluster about its groups, and tells it about them, without being a member of any.

Owns who is asked (each broker for its groups, a group's coordinator for all else), and trying again while a coordinator
moves. What the answers amount to, and what may be changed, is decided by those who ask.
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
from sarameya.net.admin_client import AdminClient, for_each, refusal
from sarameya.net.cluster_admin import ClusterAdmin
from sarameya.net.coordinator import CoordinatorClient
from sarameya.net.retries import Retries
from sarameya.net.transport import Transport
from sarameya.observe import Observer
from sarameya.protocol.described_groups import BROKER_LED, CLASSIC, DEAD, DescribedGroup, ListedGroup, Listing
from sarameya.protocol.metadata import Broker

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
"""Codes of a coordinator that has just moved, or is about to answer."""

_OF_ALL = _PASSING | {ErrorCode.GROUP_AUTHORIZATION_FAILED}
"""Codes that are about the coordinator or the group, and so about the whole commit."""

T = TypeVar("T")


class GroupAdmin(ClusterAdmin):
    """Asks about groups, and changes those without members: `async with GroupAdmin(servers, config, observer)`.

    It raises what every ClusterAdmin does.
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
        """The groups of every broker. One that does not answer is told among the failures."""
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
        """The group's state and members."""
        return await self._ask_coordinator(group, "description", partial(self._describe, group))

    async def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """All that the group has committed, of topics that this principal may see."""
        return await self._ask_coordinator(group, "committed offsets", partial(self._client.committed, group))

    async def commit(
        self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
    ) -> dict[TopicPartition, int]:
        """Commit for a group without members, which is made if it does not exist; each partition's error code.

        The coordinator refuses all of it (UNKNOWN_MEMBER_ID) once the group has a member. A commit whose answer was
        lost is sent again: it says the same.
        """
        return await self._ask_coordinator(group, "commit", partial(self._commit, group, offsets))

    async def delete_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Take commits away (KIP-496); each partition's error code. Of a topic that a member reads none is taken."""
        ask = partial(self._client.delete_offsets, group, tuple(partitions))
        return await self._ask_coordinator(group, "deletion of offsets", ask)

    async def delete_group(self, group: str) -> None:
        """Remove a group without members, and all that it has committed (KIP-229)."""
        await self._ask_coordinator(group, "deletion", partial(self._client.delete_group, group))

    # -- whom to ask, and how often -----------------------------------------------------------------

    async def _ask_coordinator(self, group: str, what: str, ask: Callable[[Broker], Awaitable[T]]) -> T:
        """Do `ask` with the group's coordinator, again and anew while what stops it may pass."""
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
        """A group that no request describes: it does not exist, or it is of a type that is only listed here."""
        listed = next((g for g in await self._list(coordinator) if g.group == group), None)
        if listed is None or listed.type in (None, CLASSIC, BROKER_LED):
            return DescribedGroup(group, DEAD, coordinator)
        return DescribedGroup(group, listed.state or "", coordinator, listed.type or "", listed.protocol_type)

    async def _commit(
        self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset], coordinator: Broker
    ) -> dict[TopicPartition, int]:
        commits = {
            partition: offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)
            for partition, offset in offsets.items()
        }
        client = CoordinatorClient(self._pool, group, self._config)
        codes = await client.commit(coordinator.node_id, NO_GENERATION, _NO_MEMBER, commits)
        if (code := next((code for code in codes.values() if code in _OF_ALL), 0)) != 0:
            raise refusal(code, f"commit for group {group!r}", "READ")
        return for_each(commits, codes)


def _may_pass(error: SarameyaError) -> bool:
    """Whether the same may succeed a little later, perhaps at another broker."""
    return error.retriable or (isinstance(error, KafkaError) and error.code in _PASSING)
