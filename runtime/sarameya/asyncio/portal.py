"""A thread with a trio event loop for an asyncio program, and calls between the two loops, in both directions.

    asyncio's thread                                         trio's thread
    Portal.call, Portal.start, Portal.post  ── Mailbox ──►   a task of the portal, or a function
    a task of the loop                      ◄── Mailbox ──   Portal.call_back

Each side awaits the other; no thread ever blocks. A cancellation is passed on to the other side, and the caller waits
until the call has ended there, so that its cleanup is complete when the cancellation is raised. The call has the
context variables of the caller.

Trio's guest mode was not chosen: it runs trio within asyncio's loop, and a handler that blocks the loop would stop the
heartbeats.

Rules that are easily broken:

- The portal's nursery encloses the object's block: `ConsumerGroup` waits at the end of its block for `consume()`, which
  runs in the nursery. Test: `tests/asyncio/test_shutdown.py::test_end_of_the_block_ends_consume`.
- A function that is put into trio's mailbox must not raise: trio would end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from traceback import StackSummary
from typing import Any, Generic, TypeVar, TypeVarTuple

import trio

from sarameya.asyncio.mailbox import Mailbox
from sarameya.asyncio.stacks import stack_of
from sarameya.errors import unwrap_error
from sarameya.group.handler_methods import awaited
from sarameya.group.monitoring.stacks import continued

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_NO_LOOP = "this class runs on asyncio: a program on trio imports it from sarameya, not from sarameya.asyncio"
_OTHER_LOOP = "this object belongs to another event loop"
_WAITS_FOR_ITSELF = "a handler cannot leave this block, which waits for the handler: call close_nowait()"
_HOW_CANCELLED = "a task or a future that it awaits was cancelled"
_LOOP_CLOSED = "the event loop was closed before the block of this object ended"

_CHECK_SECONDS = 1.0

_current: ContextVar[PortalCall[Any] | None] = ContextVar("sarameya_call", default=None)
"""The call that the current task of trio belongs to."""


class Portal:
    """A thread that runs trio for the length of an object's block.

    Args:
        name: Name of the thread.
        runtime: The object: its block lasts from `open` to `close`, in the thread.
        closed: Text of the RuntimeError of a call outside of the block.
    """

    def __init__(self, name: str, runtime: AbstractAsyncContextManager[object], closed: str) -> None:
        self._name = name
        self._runtime = runtime
        self._closed = closed
        self._loop = _running_loop()
        self._loop_thread = threading.get_ident()
        self._to_asyncio = Mailbox(self._wake_asyncio)
        # Set by the thread before `open` returns.
        self._to_trio: Mailbox
        self._nursery: trio.Nursery
        self._stop: trio.Event
        self._opened, self._ended = self._loop.create_future(), self._loop.create_future()
        self._failure: BaseException | None = None
        self._is_failing = False
        self._calls: set[PortalCall[Any]] = set()  # used by asyncio's thread
        self._callbacks: set[_CallBack[Any]] = set()  # used by trio's thread
        # A daemon: if the program ends without closing the portal, the interpreter must not wait for the thread.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run_thread,), name=self._name, daemon=True
        )

    # -- asyncio's thread ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Start the thread, and enter the object's block.

        Raises:
            BaseException: The object's block could not be entered.
        """
        self._thread.start()
        try:
            await asyncio.wait([self._opened, self._ended], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._end()
            raise
        if self._ended.done():
            await self._end()
            self._raise_failure()

    async def close(self) -> None:
        """Leave the object's block, and end the thread. A cancellation is raised after that.

        Raises:
            BaseException: An exception of the block's end.
            RuntimeError: The portal belongs to another event loop, or the caller is a handler that the end waits for.
        """
        self._check_loop()
        task = asyncio.current_task()
        if any(call._task is task for call in tuple(self._callbacks)):
            raise RuntimeError(_WAITS_FOR_ITSELF)
        await self._end()
        self._raise_failure()

    async def _end(self) -> None:
        cancelled: asyncio.CancelledError | None = None
        has_stopped = False
        while not self._ended.done():
            if self._opened.done() and not has_stopped:
                has_stopped = True
                self._to_trio.put(self._stop.set)
            try:
                waiting = [self._ended] if self._opened.done() else [self._ended, self._opened]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as error:
                cancelled = error
        self._thread.join()
        if cancelled is not None and self._failure is None:
            raise cancelled

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def call(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Call a coroutine function in trio's thread, and wait for its end.

        Raises:
            CancelledError: The caller was cancelled. The call has ended, too.
            Exception: Any exception of the function, even if the caller was cancelled.
            RuntimeError: The portal is closed, or the object has failed: its exception is the cause.
        """
        call = self.start(function, *args)
        cancelled: asyncio.CancelledError | None = None
        while not call.is_done:
            try:
                await call.wait()
            except asyncio.CancelledError as error:
                cancelled = error
                call.cancel()
        if cancelled is not None and not call.has_failed:
            raise cancelled
        return call.result()

    async def call_sync(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Call a function in trio's thread. Raises as `call` does."""

        async def call() -> T:
            return function(*args)

        return await self.call(call)

    def start(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> PortalCall[T]:
        """Start a call of a coroutine function in trio's thread.

        Raises:
            RuntimeError: The portal is closed, or belongs to another event loop.
        """
        self._check_loop()
        call = PortalCall(self, self._loop.create_future(), partial(function, *args))
        self._put(call._start)
        self._calls.add(call)
        return call

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(_OTHER_LOOP)

    def post(self, function: Callable[[*Ts], object], *args: *Ts) -> None:
        """Call a function in trio's thread, and do not wait. The event loop's handler of exceptions gets its exception.

        Raises:
            RuntimeError: The portal is closed.
        """
        self._put(partial(self._run_posted, partial(function, *args)))

    def _put(self, function: Callable[[], object]) -> None:
        if self._opened.done() and not self._ended.done():
            with suppress(trio.RunFinishedError):
                self._to_trio.put(function)
                return
        raise self._closed_error()

    def _closed_error(self) -> RuntimeError:
        if self._failure is None:
            return RuntimeError(self._closed)
        error = RuntimeError(f"{self._name} has failed: {unwrap_error(self._failure)!r}")
        error.__cause__ = self._failure
        return error

    def _set_ended(self) -> None:
        for call in self._calls:
            call._error = self._closed_error()
            call._done.set_result(None)
        self._ended.set_result(None)

    # -- trio's thread ------------------------------------------------------------------------------------

    def _run_thread(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001 - `close` raises it
            self._failure = error
        finally:
            self._to_asyncio.put(self._set_ended)

    async def _main(self) -> None:
        self._to_trio = Mailbox(trio.lowlevel.current_trio_token().run_sync_soon)
        self._stop = trio.Event()
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._watch_loop)
            try:
                async with self._runtime:
                    self._to_asyncio.put(partial(self._opened.set_result, None))
                    try:
                        await self._stop.wait()
                    except trio.Cancelled:
                        self._is_failing = True
                        raise
            except Exception as error:  # noqa: BLE001 - `close` raises it, without the group of a nursery
                self._failure = error
            # Calls that still run: the object has ended without them.
            self._nursery.cancel_scope.cancel()

    def _run_posted(self, function: Callable[[], object]) -> None:
        try:
            function()
        except Exception as error:  # noqa: BLE001 - reported
            context = {"message": f"{self._name}: {error}", "exception": error}
            self._to_asyncio.put(partial(self._loop.call_exception_handler, context))

    async def call_back(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts, name: str) -> T:
        """Call a coroutine function as a task of asyncio's loop, and wait for its end.

        If somebody else cancels the task, or Ctrl-C interrupts it, the portal's call that this call belongs to is
        cancelled as well.

        Args:
            function: The function.
            args: Its arguments.
            name: Name of the task.

        Raises:
            BaseException: Any exception of the function.
            RuntimeError: The function has raised CancelledError by itself.
        """
        if self._loop.is_closed():
            raise RuntimeError(_LOOP_CLOSED)
        call = _CallBack(self, partial(awaited, function, *args), name)
        self._callbacks.add(call)
        try:
            return await call.run()
        finally:
            self._callbacks.discard(call)

    def _wake_asyncio(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function)

    async def _watch_loop(self) -> None:
        """End everything if asyncio's loop is closed: nobody can close this portal any more."""
        while not self._loop.is_closed():  # noqa: ASYNC110 - no event tells
            await trio.sleep(_CHECK_SECONDS)
        for call in self._callbacks:
            call.abandon()
        self._nursery.cancel_scope.cancel()


class PortalCall(Generic[T]):
    """A call in trio's thread. Created by `Portal.start`."""

    def __init__(self, portal: Portal, done: asyncio.Future[None], function: Callable[[], Awaitable[T]]) -> None:
        self._portal = portal
        self._done = done
        self._function = function
        self._context: Context = copy_context()
        self._scope = trio.CancelScope()
        self._error: BaseException | None = None
        self._value: T

    @property
    def is_done(self) -> bool:
        """True once the call has ended."""
        return self._done.done()

    @property
    def has_failed(self) -> bool:
        """True if the call has ended by an exception other than a cancellation."""
        return self._error is not None and not isinstance(self._error, asyncio.CancelledError)

    async def wait(self) -> None:
        """Wait until the call has ended. A cancellation of the wait does not cancel the call."""
        await asyncio.wait([self._done])

    def cancel(self) -> None:
        """Cancel the call. It ends soon."""
        with suppress(RuntimeError):  # it has ended just now
            self._portal._put(self._scope.cancel)

    def result(self) -> T:
        """Return the result of the call, which has ended.

        Raises:
            CancelledError: The call was cancelled.
            RuntimeError: The portal was closed before the end of the call, or the object has failed.
            BaseException: Any exception of the call.
        """
        if self._error is not None:
            raise self._error
        return self._value

    def _start(self) -> None:
        with suppress(RuntimeError):  # the nursery is closed: the end of the thread ends this call
            self._context.run(self._portal._nursery.start_soon, self._run)

    async def _run(self) -> None:
        _current.set(self)
        is_interrupted = False
        try:
            with self._scope:
                self._value = await self._function()
            if self._scope.cancelled_caught:
                self._error = asyncio.CancelledError()
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            self._error = _uncancelled(error)
            # If the object is failing, its own task knows that after a checkpoint.
            await trio.lowlevel.cancel_shielded_checkpoint()
            is_interrupted = self._error is None
        # Otherwise the end of the thread ends this call, with the failure of the object. The call may have returned
        # because the object's block has ended.
        if not (is_interrupted or self._portal._is_failing):
            self._end()

    def _end(self) -> None:
        self._portal._to_asyncio.put(self._set_done)

    def _set_done(self) -> None:
        self._portal._calls.discard(self)
        self._done.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(_NO_LOOP) from None


def _uncancelled(error: BaseException) -> BaseException | None:
    """Return the exception of a call without trio's cancellations: None if it has no other."""
    if isinstance(error, BaseExceptionGroup):
        rest = error.split(trio.Cancelled)[1]
        if rest is None:
            return None
        # An exception such as SystemExit ends programs by its type: the groups of nurseries would hide it.
        error = rest if isinstance(rest, ExceptionGroup) else unwrap_error(rest)
    if isinstance(error, asyncio.CancelledError):  # raised in a thread: nobody has cancelled this call
        failure = RuntimeError(f"a handler has raised CancelledError: {_HOW_CANCELLED}")
        failure.__cause__ = error
        return failure
    return None if isinstance(error, trio.Cancelled) else error


class _CallBack(Generic[T]):
    """A call in asyncio's thread."""

    def __init__(self, portal: Portal, function: Callable[[], Awaitable[T]], name: str) -> None:
        self._portal = portal
        self._function = function
        self._name = name
        self._context = copy_context()
        self._ended = trio.Event()
        self._task: asyncio.Task[T] | None = None
        self._was_cancelled = self._was_cancelled_from_outside = False
        self._error: BaseException | None = None
        self._value: T

    async def run(self) -> T:
        self._portal._to_asyncio.put(self._start)
        with continued(self._stack):
            try:
                await self._ended.wait()
            except trio.Cancelled:
                self._portal._to_asyncio.put(self._cancel)
                with trio.CancelScope(shield=True):
                    await self._ended.wait()
                if self._was_cancelled:
                    raise
        if self._was_cancelled:
            if self._was_cancelled_from_outside and (call := _current.get()) is not None:
                call._scope.cancel()
                await trio.lowlevel.checkpoint()
            raise RuntimeError(f"{self._name} has raised CancelledError: {_HOW_CANCELLED}") from self._error
        if self._error is not None:
            raise self._error
        return self._value

    def abandon(self) -> None:
        """End the call without its result: the event loop is closed."""
        self._error = RuntimeError(_LOOP_CLOSED)
        self._ended.set()

    def _stack(self) -> StackSummary:
        return stack_of(self._task, self._portal._loop_thread)

    # -- asyncio's thread ---------------------------------------------------------------------------------

    def _start(self) -> None:
        call: Any = self._function()
        try:
            self._task = self._portal._loop.create_task(call, name=self._name, context=self._context)
        except BaseException as error:
            call.close()
            self._fail(error)
            if not isinstance(error, Exception):  # Ctrl-C has interrupted a task that a factory of tasks starts at once
                raise
        else:
            self._task.add_done_callback(self._on_done)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _on_done(self, task: asyncio.Task[T]) -> None:
        try:
            self._value = task.result()
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            self._fail(error, was_cancelled=task.cancelling() > 0)
        else:
            self._portal._to_trio.put(self._ended.set)

    def _fail(self, error: BaseException, was_cancelled: bool = False) -> None:
        # The loop has raised a KeyboardInterrupt or a SystemExit itself, no others: here it is a cancellation.
        is_interrupt = isinstance(error, KeyboardInterrupt | SystemExit)
        self._error = error
        self._was_cancelled = is_interrupt or isinstance(error, asyncio.CancelledError)
        self._was_cancelled_from_outside = is_interrupt or was_cancelled
        self._portal._to_trio.put(self._ended.set)
