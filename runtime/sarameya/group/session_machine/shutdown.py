"""The time limits of a session as cancel scopes, and the last commits within these limits.

Only `Shutdown` turns the session's deadline (`deadline.py`) into cancel scopes. It returns a scope for each step; when
the deadline is moved to an earlier time, `limit` shortens the scopes in use.

If a last commit fails, the failure is only reported: the partition's next owner reads the messages again.
"""

from __future__ import annotations

import trio

from sarameya.errors import SarameyaError
from sarameya.group.offsets.offset_manager import OffsetManager
from sarameya.group.session_machine.deadline import RevocationDeadline, step_deadline
from sarameya.group.source import SessionRuntime
from sarameya.observe import CommitFailed


class Shutdown:
    """The cancel scopes and the last commits of one session.

    Attributes:
        scope: The scope of the last calls and the last commit; shielded from the cancellation of `consume()`.
    """

    def __init__(self, deadline: RevocationDeadline, runtime: SessionRuntime, offsets: OffsetManager) -> None:
        self.scope = trio.CancelScope(shield=True)
        self._deadline = deadline
        self._runtime = runtime
        self._offsets = offsets
        # At most one scope of each kind is in use: jobs run one after the other.
        self._grace = trio.CancelScope()
        self._release = trio.CancelScope()
        self._commit = trio.CancelScope()

    def limit(self) -> None:
        """Shorten the scopes in use: the deadline was moved to an earlier time."""
        deadline = self._deadline
        self._grace.deadline = min(self._grace.deadline, deadline.grace_ends)
        self._release.deadline = min(self._release.deadline, step_deadline(deadline.at, trio.current_time()))
        self._commit.deadline = min(self._commit.deadline, deadline.at)
        self.scope.deadline = deadline.session_ends

    def grace_scope(self) -> trio.CancelScope:
        """Return the scope of a call that may run while claims are read, and has the same time as they to end."""
        self._grace = trio.CancelScope(deadline=self._deadline.grace_ends)
        return self._grace

    def release_scope(self, *, shield: bool) -> trio.CancelScope:
        """Return the scope of a call that releases revoked partitions: a commit, or `cleanup`, has to follow.

        Args:
            shield: True if a cancellation of `consume()` shall only shorten the time of the call, not cancel it.
        """
        deadline = step_deadline(self._deadline.at, trio.current_time())
        self._release = trio.CancelScope(deadline=deadline, shield=shield)
        return self._release

    async def commit_revoked(self) -> bool:
        """Commit all marks. Return False if the deadline, or `break_off_commit`, cancelled the commit."""
        with trio.CancelScope(deadline=self._deadline.at) as self._commit:
            await self.commit_marked()
        return not self._commit.cancelled_caught

    def break_off_commit(self) -> None:
        """Cancel the commit of revoked partitions: the session ends, and its last commit includes them."""
        self._commit.cancel()

    async def commit_marked(self) -> None:
        """Commit all marks. Without autocommit, commit only those in topics that were deleted and created again."""
        partitions = None if self._runtime.config.autocommit else self._offsets.ledger.recreated
        if partitions is not None and not partitions:
            return
        try:
            await self._offsets.commit(partitions)
        except SarameyaError as error:
            self._runtime.observer(CommitFailed(self._runtime.group, str(error)))
