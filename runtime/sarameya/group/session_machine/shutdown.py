"""The time limits of a session as cancel scopes, and the commits that have to be done by then.

`Shutdown` is the only one to turn the session's deadline (`deadline.py`) into cancel scopes. A part of the session asks
it for a scope when it starts; when the deadline comes nearer, `limit` shortens the scopes that are in use.

What is marked and not committed is read again by the partition's next owner. So a commit that fails is reported, and
no more.
"""

from __future__ import annotations

import trio

from sarameya.errors import SarameyaError
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.group.session_machine.deadline import RevocationDeadline, most_of
from sarameya.group.source import SessionRuntime
from sarameya.observe import CommitFailed


class Shutdown:
    """The cancel scopes and the last commits of one session.

    Attributes:
        scope: For the last calls and the last commit; shielded from the cancellation of `consume()`.
    """

    def __init__(self, deadline: RevocationDeadline, runtime: SessionRuntime, offsets: OffsetManager) -> None:
        self.scope = trio.CancelScope(shield=True)
        self._deadline = deadline
        self._runtime = runtime
        self._offsets = offsets
        # At most one of each is in use at a time: jobs are done one after the other.
        self._grace = trio.CancelScope()
        self._release = trio.CancelScope()
        self._commit = trio.CancelScope()

    def limit(self) -> None:
        """Shorten the scopes in use: the deadline has come nearer."""
        deadline = self._deadline
        self._grace.deadline = min(self._grace.deadline, deadline.grace_ends)
        self._release.deadline = min(self._release.deadline, most_of(deadline.at, trio.current_time()))
        self._commit.deadline = min(self._commit.deadline, deadline.at)
        self.scope.deadline = deadline.session_ends

    def grace_scope(self) -> trio.CancelScope:
        """Return the scope of a call that goes on beside claims, and has a grace as they do."""
        self._grace = trio.CancelScope(deadline=self._deadline.grace_ends)
        return self._grace

    def release_scope(self, *, shield: bool) -> trio.CancelScope:
        """Return the scope of a call that releases revoked partitions: a commit, or cleanup, has to follow.

        Args:
            shield: Whether cancelling `consume()` leaves the call less time, and not none.
        """
        by = most_of(self._deadline.at, trio.current_time())
        self._release = trio.CancelScope(deadline=by, shield=shield)
        return self._release

    async def commit_revoked(self) -> bool:
        """Commit all that is marked. Return whether the deadline, or `break_off_commit`, did not cut it off."""
        with trio.CancelScope(deadline=self._deadline.at) as self._commit:
            await self.commit_marked()
        return not self._commit.cancelled_caught

    def break_off_commit(self) -> None:
        """Cancel the commit of revoked partitions: the session ends, and its last commit has them, too."""
        self._commit.cancel()

    async def commit_marked(self) -> None:
        """Commit all that is marked; without autocommit, only where a topic starts that was created again."""
        partitions = None if self._runtime.config.autocommit else self._offsets.ledger.recreated
        if partitions is not None and not partitions:
            return
        try:
            await self._offsets.commit(partitions)
        except SarameyaError as error:
            self._runtime.observer(CommitFailed(self._runtime.group, str(error)))
