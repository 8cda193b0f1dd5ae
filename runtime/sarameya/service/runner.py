"""Runs members of a group: builds the handler, enters it, consumes, and meets failure by the app's policy.

Owns one process's members. Signals come in as a `Stop`; processes are `workers.py`'s.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Protocol, overload

import attrs
import trio

from sarameya.group.handler import ConsumerGroupHandler
from sarameya.service.app_file import App
from sarameya.service.restarts import Restarts
from sarameya.service.signals import Stop
from sarameya.service.starting import entered

logger = logging.getLogger("sarameya")


class Group(Protocol):
    """What the runner needs of a ConsumerGroup."""

    @overload
    async def consume(self, topics: Sequence[str], handler: ConsumerGroupHandler) -> None: ...

    @overload
    async def consume(self, *, pattern: re.Pattern[str], handler: ConsumerGroupHandler) -> None: ...

    def close_nowait(self, reason: str = ...) -> None: ...


OpenGroup = Callable[[App], AbstractAsyncContextManager[Group]]
MakeHandler = Callable[[], ConsumerGroupHandler]


def _nobody(*what: object) -> None:
    """Nobody else is told."""


@attrs.frozen(slots=True)
class Member:
    """How one is made, anew each time that it has failed; `on_failure` is told of each, and `on_restart` in how many
    seconds it is made anew, after how many failures in a row."""

    app: App
    make_handler: MakeHandler
    open_group: OpenGroup
    on_failure: Callable[[Exception], None] = _nobody
    on_restart: Callable[[float, int], None] = _nobody


async def run_members(members: Iterable[Member], stop: Stop) -> None:
    """All of them, each with a handler of its own, in one nursery.

    When one fails for good the others end in order first; then all failures are raised as one ExceptionGroup.
    """
    failures: list[Exception] = []

    async def run(member: Member) -> None:
        try:
            await run_member(member, stop)
        except Exception as error:  # noqa: BLE001  raised below, after the other members have drained
            failures.append(error)
            stop.ask("a member failed")

    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(run, member)
    if failures:
        raise ExceptionGroup("members failed", failures)


async def run_member(member: Member, stop: Stop) -> None:
    """One member until `stop`; failures restart it, handler and all, if the app says so.

    Raises what `consume` raised under the policy `stop`, and under any policy where a person must act first.
    """
    restarts = Restarts(member.app.service)
    while not stop.asked:
        started = trio.current_time()
        try:
            await run_once(member, stop)
        except Exception as error:
            _told(partial(member.on_failure, error))
            if restarts.is_final(error, stop):
                raise
            lived = trio.current_time() - started
            await restarts.wait_after(
                "member", error, lived, stop, lambda *due: _told(partial(member.on_restart, *due))
            )
        else:
            return


def _told(tell: Callable[[], None]) -> None:
    """Who watches must not keep a member from being started again."""
    try:
        tell()
    except Exception:
        logger.exception("a member's failure could not be shown")


async def run_once(member: Member, stop: Stop) -> None:
    """One life of a member: handler entered, group joined, consumed until `stop` has closed the group.

    `stop` cancels the handler's start; later there is something to be ended in order.
    """
    app, handler = member.app, member.make_handler()
    life: AbstractAsyncContextManager[object] = nullcontext()
    if isinstance(handler, AbstractAsyncContextManager):
        life = handler
    async with entered(life, stop):
        if stop.asked:
            return
        async with member.open_group(app) as group, trio.open_nursery() as nursery:
            nursery.start_soon(_close_when_asked, stop, group)
            if app.topics_pattern is not None:
                await group.consume(pattern=re.compile(app.topics_pattern), handler=handler)
            else:
                await group.consume(app.topics, handler)
            nursery.cancel_scope.cancel()


async def _close_when_asked(stop: Stop, group: Group) -> None:
    await stop.wait()
    group.close_nowait(f"the service stops: {stop.cause}")
