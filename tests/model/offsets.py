"""A client's positions and commits: a stand-in for `group/offsets/offset_manager.py`, without tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sarameya.embedded.groups.model.messages import CommitRequest, OffsetCommitResult, OffsetFetchResult
from sarameya.error_codes import ErrorCode
from sarameya.model import CommittedOffset, Generation, TopicPartition
from sarameya.protocol.membership.machine import Membership
from sarameya.protocol.membership.messages import CommitRefused, CoordinatorLost, Event
from sarameya.protocol.membership.states import COMMITTING, Reaction, Request, State, reaction_to
from tests.model.brokers import GROUP, Body, FetchRequest

_ENDS_MEMBERSHIP = frozenset({Reaction.FORGET_MEMBER, Reaction.DROP_GENERATION, Reaction.FATAL})

Send = Callable[[int, Body, Callable[[Any], None], Callable[[str], None]], None]
"""Sends a request: (node id, request, callback for the response, callback for a failure)."""


class Offsets:
    """Positions and committed offsets of the owned partitions. At most one request of each kind is under way."""

    def __init__(
        self,
        machine: Membership,
        instance_id: str | None,
        send: Send,
        post: Callable[[Event], None],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        """Create the offsets of a client without partitions.

        Args:
            machine: the client's membership machine.
            instance_id: that of a static member.
            send: sends a request.
            post: passes an event to the machine.
            later: calls an action after a short time; only once, even if it is scheduled again until then.
        """
        self.positions: dict[TopicPartition, int | None] = {}
        """Owned partition -> the next offset to read; None until its start offset is known."""
        self.generation: Generation | None = None
        """The generation in which the owned partitions were assigned or confirmed."""
        self._machine = machine
        self._instance_id = instance_id
        self._send = send
        self._post = post
        self._later = later
        self.committed: Callable[[], None] = lambda: None
        """Called after each successful commit."""
        self.is_urgent: Callable[[], bool] = lambda: False
        """Returns True while a revocation waits for the commit."""
        self._committed: dict[TopicPartition, int] = {}
        self._is_committing = self._is_fetching = False

    def dirty(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the positions of those partitions whose position differs from their committed offset."""
        positions = {tp: position for tp in partitions if (position := self.positions.get(tp)) is not None}
        return {tp: position for tp, position in positions.items() if position != self._committed[tp]}

    def read_on(self, but: Iterable[TopicPartition] = ()) -> None:
        """Read one more message of each owned partition, except for `but`."""
        drained = set(but)
        for partition, position in self.positions.items():
            if position is not None and partition not in drained:
                self.positions[partition] = position + 1

    # -- start offsets -------------------------------------------------------------------------------

    def fetch(self) -> None:
        """Fetch the committed offsets of the partitions that have no position yet."""
        wanted = tuple(tp for tp, position in self.positions.items() if position is None)
        node_id, generation = self._machine.coordinator, self.generation
        if not wanted or self._is_fetching:
            return
        if node_id is None:
            self._later(self.fetch)
            return

        def answered(answer: OffsetFetchResult) -> None:
            self._is_fetching = False
            if answer.error:
                if reaction_to(Request.OFFSET_FETCH, answer.error) is Reaction.FIND_COORDINATOR:
                    self._post(CoordinatorLost(node_id, ErrorCode.describe(answer.error)))
                self._later(self.fetch)
                return
            # A response from an earlier generation may be older than the commits of another owner since then.
            for partition in wanted if generation == self.generation else ():
                if partition in self.positions:
                    position = max(answer.offsets[partition].offset, 0)
                    self.positions[partition] = self._committed[partition] = position
            self.fetch()

        def failed(cause: str) -> None:
            self._is_fetching = False
            self._post(CoordinatorLost(node_id, cause))
            self._later(self.fetch)

        self._is_fetching = True
        self._send(node_id, FetchRequest(wanted), answered, failed)

    # -- commits -------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit all dirty positions. A failed commit is retried soon only while a revocation waits for it."""
        machine, dirty = self._machine, self.dirty(self.positions)
        generation, node_id = machine.generation, machine.coordinator
        if self._is_committing or not dirty:
            return
        if generation is None or node_id is None or machine.state not in COMMITTING:
            self._retry_if_urgent()
            return

        def answered(answer: OffsetCommitResult) -> None:
            self._is_committing = False
            codes = {code for code in answer.errors.values() if code}
            if not codes:
                self._committed.update((tp, dirty[tp]) for tp in dirty if tp in self.positions)
                self.committed()
            for code in codes:
                self._refused(code, generation, node_id)
            self._retry_if_urgent()

        def failed(cause: str) -> None:
            self._is_committing = False
            self._post(CoordinatorLost(node_id, cause))
            self._retry_if_urgent()

        self._is_committing = True
        offsets = {tp: CommittedOffset(position) for tp, position in dirty.items()}
        body = CommitRequest(GROUP, offsets, generation.id, generation.member_id, self._instance_id)
        self._send(node_id, body, answered, failed)

    def _retry_if_urgent(self) -> None:
        if self.is_urgent():
            self._later(self.commit)

    def _refused(self, code: int, generation: Generation, node_id: int) -> None:
        machine, reaction = self._machine, reaction_to(Request.COMMIT, code)
        if reaction in _ENDS_MEMBERSHIP:
            # Otherwise a new generation has begun meanwhile, and the commit is sent again in it.
            if machine.generation == generation and machine.state is not State.PREPARING_REBALANCE:
                self._post(CommitRefused(generation.id, code))
        elif reaction is Reaction.FIND_COORDINATOR:
            self._post(CoordinatorLost(node_id, ErrorCode.describe(code)))
