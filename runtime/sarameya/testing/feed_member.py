"""The member of a `ClaimFeed`'s session, and the coordinator that stores its commits."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping

import trio

from sarameya.embedded import CoordinatorConfig
from sarameya.error_codes import ErrorCode
from sarameya.errors import GroupError, kafka_error
from sarameya.group.membership.notices import Notice
from sarameya.model import CommittedOffset, Generation, TopicPartition
from sarameya.net.coordinator import FetchedOffsets
from sarameya.protocol.membership.messages import CommitRefused, Event, Fail, LeaveWanted, MembershipLost
from sarameya.protocol.membership.states import Reaction, Request, reaction_to
from sarameya.protocol.subscription import Growth

_NODE = 0
_MOST_METADATA = CoordinatorConfig().offset_metadata_max_size


class FeedCoordinator:
    """The committed offsets of a group over all sessions, and the errors of its next commits.

    Attributes:
        committed: The committed offset of each partition.
        refusals: The error codes of the next commits, in order; 0 for success.
    """

    def __init__(self, committed: Mapping[TopicPartition, CommittedOffset]) -> None:
        self.committed = dict(committed)
        self.refusals: deque[int] = deque()

    async def commit(
        self, node_id: int, generation: int, member_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, int]:
        await trio.lowlevel.checkpoint()
        if code := self.refusals.popleft() if self.refusals else 0:
            return dict.fromkeys(offsets, code)
        accepted = {tp: offset for tp, offset in offsets.items() if len(offset.metadata) <= _MOST_METADATA}
        self.committed.update(accepted)
        return {tp: 0 if tp in accepted else ErrorCode.OFFSET_METADATA_TOO_LARGE for tp in offsets}

    async def fetch_offsets(self, node_id: int, partitions: Iterable[TopicPartition]) -> FetchedOffsets:
        await trio.lowlevel.checkpoint()
        return FetchedOffsets(0, {partition: (0, self.committed.get(partition)) for partition in partitions})


class FeedMember:
    """The `SessionMember` of one session. It is the only member of its group.

    Its assignor is always eager: the feed has one partition, so a cooperative assignor could not keep one while another
    is revoked.
    """

    is_cooperative = False

    def __init__(self, group: str, topic: str, generation: Generation, commits: FeedCoordinator) -> None:
        self.client = commits
        self.growth = Growth()
        self.wanted = (topic,)
        self._group = group
        self._generation: Generation | None = generation
        self._send, self.notices = trio.open_memory_channel[Notice](math.inf)

    def notify(self, notice: Notice) -> None:
        """Send a notice to the session."""
        if isinstance(notice, MembershipLost | Fail):
            self._generation = None
        self._send.send_nowait(notice)

    async def coordinator(self) -> int | None:
        await trio.lowlevel.checkpoint()
        return _NODE if self._generation is not None else None

    async def commit_generation(self) -> Generation | None:
        await trio.lowlevel.checkpoint()
        return self._generation

    def is_settled(self, generation: Generation) -> bool:
        return self._generation == generation

    def post(self, event: Event) -> None:
        """End the membership if a commit was refused, as a real member does."""
        match event:
            case CommitRefused(code=code) if self._generation is not None:
                error = kafka_error(code, f"group {self._group!r}", GroupError)
                if reaction_to(Request.COMMIT, code) is Reaction.FATAL:
                    self.notify(Fail(error))
                else:
                    self.notify(MembershipLost(f"commit: {error}"))
            case LeaveWanted():
                self._generation = None
