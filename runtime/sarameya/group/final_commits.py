"""The commits of what is marked, before it is given up: with autocommit, and by the deadline.

What is marked and not committed is read again by whoever owns it next; so a commit that fails is told, and no more.
"""

from __future__ import annotations

import trio

from sarameya.errors import SarameyaError
from sarameya.group.offset_manager import OffsetManager
from sarameya.group.source import Surroundings
from sarameya.observe import CommitFailed


class FinalCommits:
    """One session's: of what goes while it goes on, and the last one."""

    def __init__(self, runtime: Surroundings, offsets: OffsetManager) -> None:
        self._runtime = runtime
        self._offsets = offsets
        self._scope = trio.CancelScope()

    async def commit(self) -> None:
        """Commit all that is marked; without autocommit, only where a topic begins that was created again."""
        partitions = None if self._runtime.config.autocommit else self._offsets.ledger.begun_anew
        if partitions is not None and not partitions:
            return
        try:
            await self._offsets.commit(partitions)
        except SarameyaError as error:
            self.failed(str(error))

    async def commit_by(self, deadline: float) -> bool:
        """Likewise, by the deadline, which `hasten` may bring nearer. Whether that, or `cancel`, did not cut it off."""
        with trio.CancelScope(deadline=deadline) as self._scope:
            await self.commit()
        return not self._scope.cancelled_caught

    def hasten(self, deadline: float) -> None:
        """One that is under way has until then. Only ever earlier."""
        self._scope.deadline = min(self._scope.deadline, deadline)

    def cancel(self) -> None:
        """The session ends: there is another one, the last."""
        self._scope.cancel()

    def failed(self, cause: str) -> None:
        """Tell that there was none."""
        self._runtime.observer(CommitFailed(self._runtime.group, cause))
