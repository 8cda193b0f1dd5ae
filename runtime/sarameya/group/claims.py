"""The claims of a session that run: one task each, started, asked to finish, and cancelled one by one.

Owns the tasks and their cancel scopes. When and why a claim ends is the session's (`session_run.py`); what a task's
end means is told to it by callbacks. `streams.py` is the same for handlers that read several claims in a task.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

import attrs
import trio

from sarameya.group.claim import Claim
from sarameya.group.pauses import Pauses
from sarameya.model import TopicPartition
from sarameya.observe import ClaimCancelled, Observer

OnFailure = Callable[[str, Claim | None, Exception], None]
"""Told whose task, at which claim if that can be said, raised what."""


@attrs.define(slots=True, eq=False)
class _Running:
    claim: Claim
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)
    task: trio.lowlevel.Task | None = None
    asked_at: float = math.inf


class Claims:
    """The running claims, by partition."""

    def __init__(
        self,
        consume: Callable[[Claim], Awaitable[None]],
        *,
        on_failure: OnFailure,
        on_return: Callable[[str], None],
        observer: Observer,
        pauses: Pauses,
    ) -> None:
        """`on_return` is told what happened where `consume` returned though the claim was not asked to finish."""
        self._consume = consume
        self._on_failure = on_failure
        self._on_return = on_return
        self._observer = observer
        self._pauses = pauses
        self._running: dict[TopicPartition, _Running] = {}
        self._nursery: trio.Nursery | None = None

    def run_in(self, nursery: trio.Nursery) -> None:
        """Claims' tasks are `nursery`'s from now on."""
        self._nursery = nursery

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """What is being read now, claims that were asked to finish included."""
        return frozenset(self._running)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Those of these partitions."""
        return tuple(each.claim for each in self._running.values())

    def tasks(self, partitions: Iterable[TopicPartition]) -> Mapping[str, trio.lowlevel.Task]:
        """The tasks that still read one of these, by name, for who has to say where they stand."""
        return {_name(r.claim): r.task for r in self._of(partitions) if r.task is not None}

    def task_of(self, partition: TopicPartition) -> trio.lowlevel.Task | None:
        """Return the task that reads this partition, None where none does."""
        running = self._running.get(partition)
        return None if running is None else running.task

    def holder(self, claim: Claim) -> Claim:
        """Return the claim whose records the task that reads `claim` has: the same one."""
        return claim

    def start(self, claims: Iterable[Claim]) -> None:
        """Start a task for each claim."""
        assert self._nursery is not None, "no nursery to run in"
        for claim in claims:
            running = self._running[claim.topic_partition] = _Running(claim)
            self._pauses.watch(claim)
            self._nursery.start_soon(self._run_claim, running)

    def ask(self, partitions: Iterable[TopicPartition], deadline: float) -> Sequence[Claim]:
        """Ask claims to finish, their iterators end; those still going on at `deadline` are cancelled then.

        A second call can only hasten. Returns the claims, for whoever feeds them to stop.
        """
        asked = self._of(partitions)
        for running in asked:
            running.asked_at = min(running.asked_at, trio.current_time())
            running.scope.deadline = min(running.scope.deadline, deadline)
            running.claim._end()
        return [running.claim for running in asked]

    def ask_all(self, deadline: float) -> Sequence[Claim]:
        """The session ends: `ask` them all."""
        return self.ask(self.partitions, deadline)

    async def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait until the claims of these partitions have ended."""
        for running in self._of(partitions):
            await running.ended.wait()

    def _of(self, partitions: Iterable[TopicPartition]) -> list[_Running]:
        """In order, so that a run under virtual time can be repeated to the letter."""
        return [self._running[tp] for tp in sorted(partitions) if tp in self._running]

    async def _run_claim(self, running: _Running) -> None:
        claim = running.claim
        running.task = trio.lowlevel.current_task()
        try:
            if await run_reader(self._consume(claim), running.scope, partial(self._on_failure, _name(claim), claim)):
                if running.scope.cancelled_caught:
                    self._observer(ClaimCancelled(claim.topic_partition, trio.current_time() - running.asked_at))
                elif not claim.has_ended:
                    self._on_return(f"{_name(claim)} returned")
        finally:
            del self._running[claim.topic_partition]
            self._pauses.unwatch(claim)
            claim._end()  # where the task ended by itself, or was cancelled from outside: what it holds is given back
            claim._slice.take_back()
            running.ended.set()
            self._observer(claim._farewell())


def _name(claim: Claim) -> str:
    return f"claim of {claim.topic_partition}"


async def run_reader(
    reading: Awaitable[None], scope: trio.CancelScope, on_failure: Callable[[Exception], None]
) -> bool:
    """Run a handler's task that reads, in its scope. True where it returned or was cancelled by that; what else it
    raised is told to `on_failure`, but for what is no Exception."""
    try:
        with scope:
            await reading
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is recorded, and raised by consume()
        on_failure(error)
        return False
    except BaseExceptionGroup as group:
        failed, others = group.split(Exception)
        if failed is not None:
            on_failure(failed)
        if others is not None:
            raise others from None
        return False
    return True
