"""Lookup of a group's coordinator for a consumer that is not a member: on demand, and again after it is lost.

The commits of such a consumer have no generation. A coordinator accepts them while the group has no members (Kafka's
"simple consumer").
"""

from __future__ import annotations

import attrs

from sarameya.config import Config
from sarameya.error_codes import ErrorCode
from sarameya.errors import GroupError, SarameyaError, kafka_error
from sarameya.group.runtime import Runtime
from sarameya.model import NO_GENERATION, Generation
from sarameya.net.coordinator import CoordinatorClient
from sarameya.net.retries import Retries
from sarameya.observe import CoordinatorFound
from sarameya.protocol.membership.messages import CommitRefused, CoordinatorLost
from sarameya.protocol.membership.states import Reaction, Request, reaction_to

_PASSING = frozenset({Reaction.RETRY, Reaction.FIND_COORDINATOR})

_NON_MEMBER = Generation(NO_GENERATION, member_id="", protocol="")


class CoordinatorFinder:
    """The `Coordination` of an `OffsetManager` whose owner is not a member."""

    def __init__(self, runtime: Runtime) -> None:
        self.client = CoordinatorClient(runtime.pool, runtime.group, _without_instance(runtime.config))
        self._runtime = runtime
        self._node_id: int | None = None

    async def coordinator(self) -> int:
        """Return the coordinator's node id. Look it up, with retries, if it is unknown.

        Raises:
            GroupAuthorizationError: The client may not describe the group.
            GroupError: The cluster refuses the request for another reason.
            RetriesExhaustedError: The options allow no further retry.
        """
        retries = Retries(
            f"coordinator of group {self._runtime.group}",
            self._runtime.backoff,
            self._runtime.observer,
            kind="find_coordinator",
        )
        while self._node_id is None:
            if (cause := await self._find()) is not None:
                await retries.wait(cause)
        return self._node_id

    async def _find(self) -> str | None:
        """Send the request once. Return the reason to retry, or None."""
        runtime = self._runtime
        try:
            located = await self.client.find()
        except SarameyaError as error:
            return str(error)
        if not located.code:
            self._node_id = located.node_id
            runtime.observer(CoordinatorFound(runtime.group, located.node_id, located.host, located.port))
            return None
        if reaction_to(Request.FIND_COORDINATOR, located.code) in _PASSING:
            return f"{ErrorCode.describe(located.code)} {located.message}".strip()
        raise kafka_error(located.code, f"coordinator of group {runtime.group!r}", GroupError)

    async def commit_generation(self) -> Generation:
        """Return the empty generation, under which non-members commit."""
        return _NON_MEMBER

    def is_settled(self, generation: Generation) -> bool:
        """Return True: a consumer that is not a member never takes part in a rebalance."""
        return True

    def post(self, event: CommitRefused | CoordinatorLost) -> None:
        """Forget a lost coordinator, so that the next caller looks it up. A refused commit is raised to its caller."""
        if isinstance(event, CoordinatorLost) and event.coordinator == self._node_id:
            self._node_id = None


def _without_instance(config: Config) -> Config:
    """Remove the instance id of a static member: a commit under it would count as that member's."""
    return attrs.evolve(config, group_instance_id=None)
