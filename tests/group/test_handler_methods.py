"""Handler methods that are not coroutine functions are refused by name, before the group is joined."""

from __future__ import annotations

import contextlib
import functools
import re
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
import trio
from trio.testing import MockClock

import sarameya.asyncio
from sarameya import (
    Claim,
    ConfigError,
    ConsumerGroup,
    ConsumerGroupHandler,
    ConsumerInterceptor,
    HandlerError,
    Session,
    Stream,
    StreamHandler,
)
from sarameya.group.handler_methods import check_async, check_handler
from sarameya.testing import ClaimFeed
from tests.group.kit import Recorder, claim_failure, deadline, failure, fill, orders, start_member


class Reads(ConsumerGroupHandler):
    async def consume_claim(self, session: Session, claim: Claim) -> None:
        async for _ in claim:
            pass


class Streams(StreamHandler):
    async def consume_stream(self, session: Session, stream: Stream) -> None:
        async for _ in stream:
            pass


def plain(*args: Any) -> None:
    """A function without `return`."""
    for _ in args:
        pass


def early(flag: Any, *args: Any) -> int | None:
    with contextlib.suppress(ValueError):
        if flag:
            return 5
    return None


def generator(*args: Any) -> Iterator[int]:
    yield 1


async def async_generator(*args: Any) -> AsyncIterator[int]:
    yield 1


async def coroutine(*args: Any) -> None:
    await trio.lowlevel.checkpoint()


def returns_coroutine(*args: Any) -> Awaitable[None]:
    return coroutine(*args)


def returns_coroutine_or_none(*args: Any) -> Any:
    return coroutine(*args) or None


@functools.wraps(coroutine)
def wrapper(*args: Any) -> Any:
    return coroutine(*args)


@functools.wraps(coroutine)
def forgetful_wrapper(*args: Any) -> None:
    coroutine(*args)


@types.coroutine
def old_coroutine(*args: Any) -> Any:
    yield


class Callee:
    async def __call__(self, *args: Any) -> None: ...


class PlainCallee:
    def __call__(self, *args: Any) -> None: ...


METHODS = ["setup", "partitions_assigned", "start_offset", "partitions_revoked", "partitions_lost", "cleanup"]


@pytest.mark.parametrize(
    ("handler", "method"), [*((Reads, m) for m in [*METHODS, "consume_claim"]), (Streams, "consume_stream")]
)
async def test_fault_49_method_that_is_not_async_is_refused_by_name(
    autojump_clock: MockClock, handler: type[ConsumerGroupHandler], method: str
) -> None:
    wrong = type("Mine", (handler,), {method: plain})()
    async with orders() as cluster, ConsumerGroup(cluster.bootstrap_servers, "g", transport=cluster.transport) as group:
        with pytest.raises(ConfigError, match=re.escape(f"Mine.{method} = ")) as caught:
            await group.consume(["orders"], wrong)
        assert "write `async def`" in str(caught.value)
        assert cluster.describe_group("g").members == ()


@pytest.mark.parametrize(
    "method",
    [plain, early, generator, async_generator, forgetful_wrapper, PlainCallee(), functools.partial(plain, 1), 5, None],
)
def test_fault_49_method_that_cannot_be_async_is_refused(method: Any) -> None:
    with pytest.raises(ConfigError, match="must be a coroutine function"):
        check_async(types.SimpleNamespace(setup=method), ["setup"])


@pytest.mark.parametrize(
    "method",
    [
        *(
            coroutine,
            returns_coroutine,
            returns_coroutine_or_none,
            wrapper,
            old_coroutine,
            Callee(),
            Callee().__call__,
            AsyncMock(),
        ),
        *(Mock(), functools.partial(coroutine, 1), functools.partial(functools.partial(returns_coroutine), 1)),
        lambda *args: coroutine(*args),
    ],
)
def test_method_that_may_return_an_awaitable_is_accepted(method: Any) -> None:
    check_async(types.SimpleNamespace(setup=method), ["setup"])


class OnAsyncio(sarameya.asyncio.MessageHandler):
    async def handle(self, message: sarameya.Message) -> None: ...


@pytest.mark.parametrize("handler", [OnAsyncio(), Reads, object()])
async def test_handler_of_another_kind_is_refused_at_once(handler: Any, autojump_clock: MockClock) -> None:
    text = (
        r"runs objects of subclasses of sarameya\.ConsumerGroupHandler; those of sarameya\.asyncio need a sarameya\.a"
    )
    async with orders() as cluster:
        async with ConsumerGroup(cluster.bootstrap_servers, "g", transport=cluster.transport) as group:
            with pytest.raises(ConfigError, match=text):
                await group.consume(["orders"], handler)
    with pytest.raises(ConfigError, match=text):
        await ClaimFeed().run(handler)


def test_handlers_of_the_right_kind_are_accepted() -> None:
    check_handler(Recorder())
    check_handler(Streams())
    check_handler(AsyncMock(spec=Reads))


async def test_plain_function_returning_an_awaitable_reads_its_claim(autojump_clock: MockClock) -> None:
    class Delegates(Recorder):
        def consume_claim(self, session: Session, claim: Claim) -> Any:
            return super().consume_claim(session, claim)

    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 3)
        handler = Delegates()
        await start_member(nursery, cluster, handler)
        await handler.received(3)


def raises(*args: Any) -> Any:
    if args:
        raise RuntimeError("in the plain part")
    return coroutine()


def gives_nothing(*args: Any) -> Any:
    return args[99:]


@pytest.mark.parametrize("method", ["consume_claim", "setup", "partitions_revoked", "start_offset"])
@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [(raises, RuntimeError, "in the plain part"), (gives_nothing, HandlerError, "gives_nothing returned (), which ")],
)
async def test_fault_49_failing_plain_function_fails_as_its_method(
    autojump_clock: MockClock, method: str, function: Callable[..., Any], kind: type[Exception], text: str
) -> None:
    """Some mistakes are found only by the call. They end the session in order, like any failure of a handler."""
    async with orders() as cluster, deadline() as nursery:
        fill(cluster, 1)
        handler = type("Mine", (Recorder,), {method: function})()
        member = await start_member(nursery, cluster, handler)
        await trio.sleep(10)
        await member.close()
        error = claim_failure(member) if method == "consume_claim" else failure(member)
        found = error if isinstance(error, kind) else error.__cause__ or error.__context__
        assert isinstance(found, kind)
        assert text in str(found)
        assert cluster.describe_group("g").members == ()


@pytest.mark.parametrize("method", ["on_consume", "on_commit"])
def test_interceptor_that_is_async_is_refused_by_name(method: str) -> None:
    wrong = type("Mine", (ConsumerInterceptor,), {method: coroutine})()
    with pytest.raises(ConfigError, match=rf"Mine\.{method} = .*: must be a plain function"):
        ConsumerGroup(["a:9092"], "g", interceptors=[wrong])
