"""Methods that users write as coroutine functions: checked before the start, and awaited."""

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


_METHODS = (
    *("setup", "partitions_assigned", "start_offset", "partitions_revoked", "partitions_lost", "cleanup"),
    "consume_claim",
)


def check_handler(handler: ConsumerGroupHandler) -> None:
    """Refuse a handler that cannot be run.

    Raises:
        ConfigError: A method is not a coroutine function, or `streams` is invalid.
    """
    check_async(handler, _METHODS)
    if isinstance(handler, StreamHandler):
        check_async(handler, ["consume_stream"])
        handler._check()


def check_async(owner: object, names: Iterable[str]) -> None:
    """Refuse methods that cannot be awaited.

    Refuses only what is certain: a plain function may return the awaitable of another one.

    Raises:
        ConfigError: A method is certainly no coroutine function; names it.
    """
    for name in names:
        method = getattr(owner, name, None)
        if (fault := _why_not_async(method)) is not None:
            raise ConfigError(f"{type(owner).__name__}.{name}", method, f"must be a coroutine function: {fault}")


async def awaited(method: Callable[..., Awaitable[T]], *args: Any) -> T:
    """Call a user's method and await the result.

    Raises:
        HandlerError: The method returned what cannot be awaited.
    """
    result: object = method(*args)
    if not inspect.isawaitable(result):
        name = getattr(method, "__qualname__", repr(method))
        raise HandlerError(f"{name} returned {result!r}, which cannot be awaited: write `async def`")
    found: T = await result
    return found


def _why_not_async(method: Any) -> str | None:
    """Return what to change where a call certainly gives nothing to await; None where it may give something."""
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
    """Return whether every `return` of the code is of a constant, as in a function without `return`."""
    before = ""
    for instruction in dis.get_instructions(code):
        # A jump to it brings a value from elsewhere: `return found or None`.
        if instruction.opname == "RETURN_VALUE" and (before != "LOAD_CONST" or instruction.is_jump_target):
            return False
        before = instruction.opname
    return True
