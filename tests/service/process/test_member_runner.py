from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from types import TracebackType

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from sarameya.errors import ConnectError, HandlerError
from sarameya.group.handler import ConsumerGroupHandler
from sarameya.service.app.app_file import App, FailurePolicy, HandlerSection, ServiceSection
from sarameya.service.output.error_report import leaves
from sarameya.service.process.member_runner import MemberSpec, OpenGroup, run_member, run_members
from sarameya.service.process.signals import Stop


def app(on_failure: FailurePolicy = "stop", backoff: float = 1.0, longest: float = 60.0) -> App:
    return App(
        bootstrap_servers=("localhost:9092",),
        group="g",
        topics=("orders",),
        handler=HandlerSection("made-up"),
        service=ServiceSection(on_failure=on_failure, restart_backoff=backoff, restart_backoff_max=longest),
    )


class Handler(ConsumerGroupHandler):
    """Logs when it is entered and left."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    async def __aenter__(self) -> Handler:
        self._log.append("handler entered")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._log.append("handler left")

    async def consume_claim(self, session: object, claim: object) -> None: ...


@attrs.define
class Group:
    """A group that consumes until closed, or fails after `lives` seconds with `error`."""

    log: list[str]
    error: Exception | None = None
    lives: float = 0.0
    closed: trio.Event = attrs.field(factory=trio.Event)
    consuming: trio.Event = attrs.field(factory=trio.Event)
    since: float = 0.0
    reason: str = ""
    subscribed: object = None

    async def consume(
        self,
        topics: Sequence[str] | None = None,
        handler: ConsumerGroupHandler | None = None,
        *,
        pattern: re.Pattern[str] | None = None,
    ) -> None:
        self.log.append("consuming")
        self.subscribed = topics if pattern is None else pattern
        self.since = trio.current_time()
        self.consuming.set()
        if self.error:
            await trio.sleep(self.lives)
            raise self.error
        await self.closed.wait()
        await trio.sleep(1)  # draining
        self.log.append("drained")

    def close_nowait(self, reason: str = "") -> None:
        self.reason = reason
        self.log.append("closing")
        self.closed.set()


def opening(groups: Sequence[Group]) -> OpenGroup:
    """Return a function that opens the next of `groups` at each call."""
    remaining = iter(groups)

    @asynccontextmanager
    async def open_group(app: App) -> AsyncIterator[Group]:
        group = next(remaining)
        yield group
        group.log.append("group left")

    return open_group


def handlers(log: list[str]) -> Callable[[], ConsumerGroupHandler]:
    return lambda: Handler(log)


async def test_stop_drains_before_group_and_handler_are_left(autojump_clock: MockClock) -> None:
    log, stop = list[str](), Stop()
    group = Group(log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_member, MemberSpec(app(), handlers(log), opening([group])), stop)
        await trio.testing.wait_all_tasks_blocked()
        stop.request("SIGTERM")
    assert log == ["handler entered", "consuming", "closing", "drained", "group left", "handler left"]
    assert group.reason == "the service stops: SIGTERM", "the reason that the broker receives"


async def test_pattern_of_the_app_is_subscribed_to(autojump_clock: MockClock) -> None:
    log, stop = list[str](), Stop()
    group = Group(log)
    matching = attrs.evolve(app(), topics=(), topics_pattern="orders-.*")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_member, MemberSpec(matching, handlers(log), opening([group])), stop)
        await trio.testing.wait_all_tasks_blocked()
        stop.request("test")
    assert group.subscribed == re.compile("orders-.*")


async def test_stop_before_the_start_consumes_nothing() -> None:
    log, stop = list[str](), Stop()
    stop.request("test")
    await run_member(MemberSpec(app(), handlers(log), opening([])), stop)
    assert log == []


async def test_stop_while_the_handler_starts_opens_no_group() -> None:
    log, stop = list[str](), Stop()

    class SlowStart(Handler):
        async def __aenter__(self) -> Handler:
            stop.request("test")
            return await super().__aenter__()

    await run_member(MemberSpec(app(), lambda: SlowStart(log), opening([])), stop)
    assert log == ["handler entered", "handler left"]


async def test_stop_cancels_a_slow_start_of_the_handler(autojump_clock: MockClock) -> None:
    log, stop = list[str](), Stop()

    class LongStart(Handler):
        async def __aenter__(self) -> Handler:
            try:
                await trio.sleep(60)
            finally:
                log.append(f"start cancelled after {trio.current_time() - started:.0f} s")
            return await super().__aenter__()

    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_member, MemberSpec(app("restart"), lambda: LongStart(log), opening([])), stop)
        await trio.sleep(5)
        stop.request("test")
    assert log == ["start cancelled after 5 s"]


async def test_failure_with_policy_stop_is_raised_after_exit() -> None:
    log = list[str]()
    with pytest.raises(ExceptionGroup) as caught:
        await run_member(MemberSpec(app("stop"), handlers(log), opening([Group(log, ConnectError("gone"))])), Stop())
    assert caught.group_contains(ConnectError, match="gone")
    assert log == ["handler entered", "consuming", "handler left"]


async def test_failure_with_policy_restart_backs_off_and_rebuilds(
    autojump_clock: MockClock,
) -> None:
    log, stop = list[str](), Stop()
    restarts: list[tuple[float, int]] = []
    groups = [*(Group(log, ConnectError("gone")) for _ in range(4)), Group(log)]
    member = MemberSpec(
        app("restart", 1.0, 4.0), handlers(log), opening(groups), on_restart=lambda *what: restarts.append(what)
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_member, member, stop)
        await groups[-1].consuming.wait()
        stop.request("test")
    assert log.count("handler entered") == log.count("handler left") == 5
    waits = [later.since - earlier.since for earlier, later in pairwise(groups)]
    assert waits == [pytest.approx(wait, rel=0.2) for wait in (1, 2, 4, 4)]  # 20 % of jitter
    assert restarts == [(pytest.approx(wait), number) for number, wait in enumerate(waits, start=1)]


async def test_failure_after_a_long_run_restarts_the_backoff(autojump_clock: MockClock) -> None:
    log, stop = list[str](), Stop()
    groups = [*(Group(log, ConnectError("gone"), lives) for lives in (0, 0, 0, 100)), Group(log)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_member, MemberSpec(app("restart", 1.0, 8.0), handlers(log), opening(groups)), stop)
        await groups[-1].consuming.wait()
        stop.request("test")
    assert groups[-1].since - groups[-2].since == pytest.approx(100 + 1, abs=0.2)


async def test_failure_of_the_configuration_is_raised_under_any_policy() -> None:
    log = list[str]()
    with pytest.raises(ExceptionGroup) as caught:
        await run_member(
            MemberSpec(app("restart"), handlers(log), opening([Group(log, HandlerError("no Java"))])), Stop()
        )
    assert caught.group_contains(HandlerError)


async def test_stop_ends_the_wait_for_a_restart(autojump_clock: MockClock) -> None:
    log, stop = list[str](), Stop()
    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        group = Group(log, ConnectError("gone"))
        nursery.start_soon(run_member, MemberSpec(app("restart", 50.0), handlers(log), opening([group])), stop)
        await trio.sleep(5)
        stop.request("test")
    assert trio.current_time() - started == pytest.approx(5)


async def test_each_member_has_a_handler_and_all_stop(autojump_clock: MockClock) -> None:
    log, stop = list[str](), Stop()
    async with trio.open_nursery() as nursery:
        opened = opening([Group(log), Group(log)])
        nursery.start_soon(run_members, [MemberSpec(app(), handlers(log), opened) for _ in range(2)], stop)
        await trio.testing.wait_all_tasks_blocked()
        stop.request("test")
    assert log.count("handler entered") == log.count("drained") == log.count("handler left") == 2


async def test_failing_member_is_raised_after_the_others_drained(autojump_clock: MockClock) -> None:
    log = list[str]()
    groups = [Group(log, ConnectError("gone"), lives=3), Group(log)]
    opened, failures = opening(groups), list[Exception]()
    members = [MemberSpec(app(), handlers(log), opened, failures.append) for _ in groups]
    with pytest.raises(ExceptionGroup) as caught:
        await run_members(members, Stop())
    assert [type(leaf) for failure in failures for leaf in leaves(failure)] == [ConnectError]
    assert caught.group_contains(ConnectError)
    assert "drained" in log


async def test_failing_callbacks_do_not_prevent_a_restart(autojump_clock: MockClock) -> None:
    log, stop = list[str](), Stop()
    groups = [Group(log, ConnectError("gone"), lives=3), Group(log)]

    def broken(*what: object) -> None:
        raise KeyError("x")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_member, MemberSpec(app("restart"), handlers(log), opening(groups), broken, broken), stop)
        await trio.sleep(60)
        stop.request("test")
    assert log.count("consuming") == 2
