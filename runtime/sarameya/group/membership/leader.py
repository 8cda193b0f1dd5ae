"""The tasks of a group's leader: compute assignments, and watch the assigned topics for changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

import attrs
import trio

from sarameya.error_codes import ErrorCode
from sarameya.errors import ProtocolError
from sarameya.model import Assignment, topic_partitions
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.retries import Retries
from sarameya.observe import Observer
from sarameya.protocol.assignors import calling
from sarameya.protocol.assignors.base import Assignor, RebalanceProtocol, Subscription, TopicLayout
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.membership.messages import Assign, GroupMember
from sarameya.protocol.rebalance import decode_subscription, encode_assignment, encode_user_data
from sarameya.protocol.subscription import LOOK_UPS, Growth, TopicWatch

T = TypeVar("T")


class RunSync(Protocol):
    """Runs a function that may block: in a worker thread or, under virtual time, inline."""

    async def __call__(self, function: Callable[[], T], /) -> T: ...


async def run_in_thread(function: Callable[[], T], /) -> T:
    """Run `function` in a worker thread. A cancelled call abandons the thread: an assignor may never return."""
    return await trio.to_thread.run_sync(function, abandon_on_cancel=True)


class Leader:
    """Computes assignments while this member leads the group.

    Attributes:
        watch: The partition counts from which the last assignment was computed.
    """

    def __init__(
        self,
        group: str,
        assignors: Mapping[str, Assignor],
        metadata: MetadataRefresher,
        observer: Observer,
        backoff: Backoff,
        run_sync: RunSync,
        growth: Growth,
        look_up_timeout: float,
    ) -> None:
        """Create a leader.

        Args:
            group: Group id.
            assignors: The member's assignors, by name.
            metadata: Cluster metadata.
            observer: Receives events.
            backoff: Delays between retries.
            run_sync: Runs assignors.
            growth: Partitions that were added to their topics while the group was running.
            look_up_timeout: Seconds for which an assignment may wait for fresh metadata.
        """
        self.watch = TopicWatch()
        self._group = group
        self._assignors = assignors
        self._metadata = metadata
        self._observer = observer
        # Bounded, whatever the options are: a topic that does not exist must not delay the group's other topics.
        self._backoff = attrs.evolve(backoff, max_attempts=LOOK_UPS, max_seconds=float("inf"))
        self._run_sync = run_sync
        self._growth = growth
        self._look_up_timeout = look_up_timeout
        self._is_cooperative = all(RebalanceProtocol.COOPERATIVE in each.protocols for each in assignors.values())

    async def assign(self, command: Assign) -> Mapping[str, bytes]:
        """Return the encoded assignment of each member id.

        Raises:
            AssignorError: The assignor raised, or returned an invalid assignment.
            ProtocolError: The chosen assignor is unknown, or a member's subscription cannot be decoded.
        """
        assignor = self._assignors.get(command.generation.protocol)
        if assignor is None:
            raise ProtocolError(
                f"the coordinator chose the assignor {command.generation.protocol!r}, which this member does not have"
            )
        members = _subscriptions(command.members)
        layouts = await self._watched_layouts(members)

        def encoded_assignments() -> dict[str, bytes]:
            assignments = calling.assign(assignor, members, layouts, is_cooperative=self._is_cooperative)
            return {
                member_id: encode_assignment(assignment, self._user_data(assignor, member_id, assignment))
                for member_id, assignment in assignments.items()
            }

        # In a thread: a slow assignor must not delay the heartbeats of its own member.
        return await self._run_sync(encoded_assignments)

    def _user_data(self, assignor: Assignor, member_id: str, assignment: Assignment) -> bytes | None:
        user_data = calling.assignment_user_data(assignor, member_id, assignment)
        return encode_user_data(user_data, filter(self._growth.is_new, topic_partitions(assignment)))

    async def supervise(self, members: Iterable[GroupMember]) -> None:
        """Watch the assigned topics of an assignment that is kept, although this member is the leader now (KIP-814)."""
        await self._watched_layouts(_subscriptions(members))

    async def _watched_layouts(self, members: Mapping[str, Subscription]) -> dict[str, TopicLayout]:
        topics = {topic for subscription in members.values() for topic in subscription.topics}
        layouts = await self._layouts(topics)
        self.watch.assigned_from({topic: layouts[topic].partitions if topic in layouts else 0 for topic in topics})
        return layouts

    async def _layouts(self, topics: set[str]) -> dict[str, TopicLayout]:
        """Return the layout of each topic. Look up a missing topic a few times before leaving it out."""
        # Other members may subscribe to topics of which this member has no metadata.
        self._metadata.follow(topics)
        retries = Retries(
            f"partitions to assign in group {self._group}", self._backoff, self._observer, kind="assignment"
        )
        # All members wait for this. If brokers do not answer, old metadata is used; `watch` detects changes later.
        with trio.move_on_after(self._look_up_timeout):
            for _ in range(LOOK_UPS):
                missing = (await self._metadata.refresh()).missing(topics)
                if not missing:
                    break
                cause = ", ".join(f"{topic}: {ErrorCode.describe(code)}" for topic, code in sorted(missing.items()))
                await retries.wait(cause)
        return self._metadata.current.layouts(topics)


def _subscriptions(members: Iterable[GroupMember]) -> dict[str, Subscription]:
    return {
        member.member_id: attrs.evolve(decode_subscription(member.metadata), group_instance_id=member.group_instance_id)
        for member in members
    }
