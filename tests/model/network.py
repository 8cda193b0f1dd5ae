"""Connections between clients and brokers, and their faults. The model has order and loss, but no bytes.

As in Kafka, a broker handles the requests of a connection one at a time: the next after the response to the last. As in
`net/connection.py`, a request without a response in time closes its connection, and fails all requests that wait on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

from tests.model.scheduler import Scheduler, Timer

T = TypeVar("T")

NO_ANSWER = "no answer in time"
"""The cause with which a connection closes after a request's timeout."""


@attrs.frozen(slots=True, eq=False)
class Request:
    """A request of one client to one broker, with two callbacks.

    Exactly one is called, once, unless the client dies.
    """

    body: Any
    timeout: float
    answered: Callable[[Any], None]
    failed: Callable[[str], None]


class Pipe(Generic[T]):
    """A direction of a connection: it delivers in order, after a latency, unless it is stalled or cut."""

    def __init__(self, scheduler: Scheduler, latency: float, deliver: Callable[[T], None]) -> None:
        self._scheduler = scheduler
        self._latency = latency
        self._deliver = deliver
        self._items: deque[tuple[float, T]] = deque()
        self._stalled_until = 0.0
        self._is_cut = False

    def put(self, item: T) -> None:
        if not self._is_cut:
            ready = self._scheduler.now + self._latency
            self._items.append((ready, item))
            self._scheduler.at(max(ready, self._stalled_until), self._pump)

    def stall(self, seconds: float) -> None:
        """Deliver nothing for `seconds`; items on their way arrive later."""
        self._stalled_until = self._scheduler.now + seconds
        self._scheduler.at(self._stalled_until, self._pump)

    def cut(self) -> None:
        """Drop everything from now on, including the items on their way."""
        self._is_cut = True
        self._items.clear()

    @property
    def is_faulty(self) -> bool:
        return self._is_cut or self._stalled_until > self._scheduler.now

    def _pump(self) -> None:
        now = self._scheduler.now
        while self._items and self._items[0][0] <= now and self._stalled_until <= now:
            self._deliver(self._items.popleft()[1])


class Connection:
    """A connection of one client to one node. Each direction takes `latency` seconds.

    `serve` belongs to the broker: it takes a request, and calls its second argument once with the response.
    `run_on_client` runs an action in the client's process.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        latency: float,
        serve: Callable[[Request, Callable[[Any], None]], None],
        run_on_client: Callable[[Callable[[], None]], None],
    ) -> None:
        self.is_open = True
        self._scheduler = scheduler
        self._serve = serve
        self._run_on_client = run_on_client
        self._requests: Pipe[Request] = Pipe(scheduler, latency, self._receive_request)
        self._answers: Pipe[tuple[Request, Any]] = Pipe(scheduler, latency, self._receive_answer)
        self._waiting: dict[Request, Timer] = {}
        self._queue: deque[Request] = deque()
        self._served: Request | None = None

    def send(self, request: Request) -> None:
        def expire() -> None:
            self._run_on_client(lambda: self.close(NO_ANSWER) if request in self._waiting else None)

        self._waiting[request] = self._scheduler.after(request.timeout, expire)
        self._requests.put(request)

    def close(self, cause: str) -> None:
        """Close both ends, and fail the waiting requests. The broker still completes a request that it has begun."""
        self.is_open = False
        self._queue.clear()
        waiting, self._waiting = self._waiting, {}
        for request, timer in waiting.items():
            timer.cancel()
            self._run_on_client(lambda request=request: request.failed(cause))  # type: ignore[misc]

    # -- faults --------------------------------------------------------------------------------------

    def stall_requests(self, seconds: float) -> None:
        self._requests.stall(seconds)

    def stall_answers(self, seconds: float) -> None:
        self._answers.stall(seconds)

    def cut(self) -> None:
        """Drop all packets from now on, without an error at either end."""
        self._requests.cut()
        self._answers.cut()

    @property
    def is_faulty(self) -> bool:
        return self._requests.is_faulty or self._answers.is_faulty

    # -- the broker's end ----------------------------------------------------------------------------

    def _receive_request(self, request: Request) -> None:
        if self.is_open:
            self._queue.append(request)
            self._serve_next()

    def _serve_next(self) -> None:
        if self._served is None and self._queue and self.is_open:
            request = self._served = self._queue.popleft()
            self._serve(request, lambda answer: self._reply(request, answer))

    def _reply(self, request: Request, answer: Any) -> None:
        assert self._served is request, "answered twice"
        self._served = None
        if self.is_open:
            self._answers.put((request, answer))
            self._serve_next()

    # -- the client's end ----------------------------------------------------------------------------

    def _receive_answer(self, answered: tuple[Request, Any]) -> None:
        self._run_on_client(lambda: self._complete(*answered))

    def _complete(self, request: Request, answer: Any) -> None:
        timer = self._waiting.pop(request, None)
        if timer is not None:
            timer.cancel()
            request.answered(answer)
