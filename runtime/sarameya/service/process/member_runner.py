"""Runs members of a group: builds the handler, enters it, consumes, and handles failures by the app's policy.

All members of one process run here. A `Stop` requests their end; `supervisor.py` runs processes.
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
from sarameya.service.app.app_file import App
from sarameya.service.process.interruptible_start import enter_unless_stopped
from sarameya.service.process.restarts import Restarts
from sarameya.service.process.signals import Stop

logger = logging.getLogger("sarameya")


class Group(Protocol):
    """The part of a ConsumerGroup that the runner needs."""

    @overload
    async def consume(self, topics: Sequence[str], handler: ConsumerGroupHandler) -> None: ...

    @overload
    async def consume(self, *, pattern: re.Pattern[str], handler: ConsumerGroupHandler) -> None: ...

    def close_nowait(self, reason: str = ...) -> None: ...


OpenGroup = Callable[[App], AbstractAsyncContextManager[Group]]
MakeHandler = Callable[[], ConsumerGroupHandler]


def _ignore(*what: object) -> None:
    """Do nothing."""


@attrs.frozen(slots=True)
class MemberSpec:
    """An app, and the functions that make its member: at the start, and again after each failure."""

    app: App
    make_handler: MakeHandler
    open_group: OpenGroup
    on_failure: Callable[[Exception], None] = _ignore
    """Called with each error."""
    on_restart: Callable[[float, int], None] = _ignore
    """Called with the seconds until the restart, and the number of failures in a row."""


async def run_members(members: Iterable[MemberSpec], stop: Stop) -> None:
    """Run all members, each with a handler of its own, in one nursery.

    If a member fails and is not restarted, the others end in order first.

    Raises:
        ExceptionGroup: The failures of all members.
    """
    failures: list[Exception] = []

    async def run(member: MemberSpec) -> None:
        try:
            await run_member(member, stop)
        except Exception as error:  # noqa: BLE001  raised below, after the other members have drained
            failures.append(error)
            stop.request("a member failed")

    async with trio.open_nursery() as nursery:
        for member in members:
            nursery.start_soon(run, member)
    if failures:
        raise ExceptionGroup("members failed", failures)


async def run_member(member: MemberSpec, stop: Stop) -> None:
    """Run one member until `stop` is requested. After a failure, start it again with a new handler.

    Raises:
        Exception: The member failed, and is not restarted: the app's `on_failure` is `stop`, the error is permanent, or
            the service stops.
    """
    restarts = Restarts(member.app.service)
    while not stop.is_requested:
        started = trio.current_time()
        try:
            await run_once(member, stop)
        except Exception as error:
            _notify(partial(member.on_failure, error))
            if restarts.is_final(error, stop):
                raise
            uptime = trio.current_time() - started
            await restarts.wait_after(
                "member", error, uptime, stop, lambda *due: _notify(partial(member.on_restart, *due))
            )
        else:
            return


def _notify(observer: Callable[[], None]) -> None:
    """Call an observer of the member. Its errors must not prevent the member's restart."""
    try:
        observer()
    except Exception:
        logger.exception("a member's failure could not be recorded")


async def run_once(member: MemberSpec, stop: Stop) -> None:
    """Run a member once: enter the handler, join the group, consume until `stop` has closed the group.

    Requesting `stop` cancels the handler's start. After the start, the group ends in order.
    """
    app, handler = member.app, member.make_handler()
    life: AbstractAsyncContextManager[object] = nullcontext()
    if isinstance(handler, AbstractAsyncContextManager):
        life = handler
    async with enter_unless_stopped(life, stop):
        if stop.is_requested:
            return
        async with member.open_group(app) as group, trio.open_nursery() as nursery:
            nursery.start_soon(_close_at_stop, stop, group)
            if app.topics_pattern is not None:
                await group.consume(pattern=re.compile(app.topics_pattern), handler=handler)
            else:
                await group.consume(app.topics, handler)
            nursery.cancel_scope.cancel()


async def _close_at_stop(stop: Stop, group: Group) -> None:
    await stop.wait()
    group.close_nowait(f"the service stops: {stop.cause}")
