"""Where a group's coordinator is, for who is no member of the group: looked up when wanted, forgotten when lost.

Commits go out under no generation, which a coordinator takes as long as the group has no members (Kafka's "simple
consumer").
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
from sarameya.protocol.reactions import Reaction, Request, reaction_to

_PASSING = frozenset({Reaction.RETRY, Reaction.FIND_COORDINATOR})

_NOBODY = Generation(NO_GENERATION, member_id="", protocol="")


class CoordinatorFinder:
    """The `Coordination` of an `OffsetManager` whose owner is no member."""

    def __init__(self, runtime: Runtime) -> None:
        self.client = CoordinatorClient(runtime.pool, runtime.group, _without_instance(runtime.config))
        self._runtime = runtime
        self._node_id: int | None = None

    async def coordinator(self) -> int:
        """The coordinator's node id; looks for it while none is known.

        Raises GroupAuthorizationError or GroupError where the cluster refuses to tell, RetriesExhaustedError.
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
        """Ask once; why it has to be asked again, or None."""
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
        """None in particular."""
        return _NOBODY

    def is_settled(self, generation: Generation) -> bool:
        """No rebalance of ours is ever under way."""
        return True

    def post(self, event: CommitRefused | CoordinatorLost) -> None:
        """A lost coordinator is looked for when it is wanted next. A commit that is refused is its caller's affair."""
        if isinstance(event, CoordinatorLost) and event.coordinator == self._node_id:
            self._node_id = None


def _without_instance(config: Config) -> Config:
    """A static member's id has nothing to do here: commits under it would be that member's."""
    return attrs.evolve(config, group_instance_id=None)
