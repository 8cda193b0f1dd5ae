"""Checks and calls of the methods that users write as coroutine functions."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeVar

from sarameya.errors import ConfigError, HandlerError
from sarameya.group.handler import ConsumerGroupHandler, StreamHandler

T = TypeVar("T")


METHODS = (
    *("setup", "partitions_assigned", "start_offset", "partitions_revoked", "partitions_lost", "cleanup"),
    "consume_claim",
)


def check_handler(handler: ConsumerGroupHandler) -> None:
    """Check that a handler can be run.

    Raises:
        ConfigError: It is not a handler for trio, a method is not a coroutine function, or an option is invalid.
    """
    check_class(handler, ConsumerGroupHandler, "sarameya", "sarameya.asyncio")
    check_async(handler, METHODS)
    if isinstance(handler, StreamHandler):
        check_async(handler, ["consume_stream"])
    handler._check()


def check_class(handler: object, kind: type, package: str, other: str) -> None:
    """Check that a handler is written for this event loop.

    Args:
        handler: The handler.
        kind: The class that its class must extend.
        package: The public package of that class, and of the groups that run its handlers.
        other: The package for the other event loop.

    Raises:
        ConfigError: It is not.
    """
    if not isinstance(handler, kind):
        runs = f"a {package}.ConsumerGroup runs objects of subclasses of {package}.{kind.__name__}"
        raise ConfigError("handler", handler, f"{runs}; those of {other} need a {other}.ConsumerGroup")


def check_async(owner: object, names: Iterable[str]) -> None:
    """Check that methods are coroutine functions.

    A plain function that may return an awaitable, for example by calling another method, is accepted.

    Args:
        owner: Object that has the methods.
        names: Names of the methods.

    Raises:
        ConfigError: The result of a method can certainly not be awaited; the message names the method.
    """
    for name in names:
        method = getattr(owner, name, None)
        if (fault := _fault_of(method)) is not None:
            raise ConfigError(f"{type(owner).__name__}.{name}", method, f"must be a coroutine function: {fault}")


async def awaited(method: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Call a user's method and await the result.

    Raises:
        HandlerError: The method returned a value that cannot be awaited.
    """
    returned: object = method(*args)
    if not inspect.isawaitable(returned):
        name = getattr(method, "__qualname__", repr(method))
        raise HandlerError(f"{name} returned {returned!r}, which cannot be awaited: write `async def`")
    result: T = await returned
    return result


def _fault_of(method: Any) -> str | None:
    """Return why the method's result can certainly not be awaited, and the remedy; None if it may be awaitable."""
    while isinstance(method, functools.partial | MethodType):
        method = method.func if isinstance(method, functools.partial) else method.__func__
    if inspect.iscoroutinefunction(method):
        return None
    if not callable(method):
        return "it cannot be called"
    function = method if isinstance(method, FunctionType) else type(method).__call__
    if not isinstance(function, FunctionType) or inspect.iscoroutinefunction(function):
        return None
    if inspect.isasyncgenfunction(function):
        return "it is an async generator; remove the `yield`"
    if function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE:  # decorated with `types.coroutine`
        return None
    if inspect.isgeneratorfunction(function) or _returns_constants(function.__code__):
        return "write `async def`"
    return None


def _returns_constants(code: CodeType) -> bool:
    """Return whether every `return` of the code returns a constant, as in a function without `return`."""
    before = ""
    for instruction in dis.get_instructions(code):
        # A jump to the RETURN_VALUE brings another value than the constant before it, as in `return found or None`.
        if instruction.opname == "RETURN_VALUE" and (before != "LOAD_CONST" or instruction.is_jump_target):
            return False
        before = instruction.opname
    return True
