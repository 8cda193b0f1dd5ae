"""Connections between clients and brokers, and what may befall them. Bytes are left out, order and loss are not.

As in Kafka, a broker takes one connection's requests one at a time, the next when the last is answered. As in
`net/connection.py`, a request that is not answered in time closes its connection, and whoever waits on it is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

from tests.model.scheduler import Scheduler, Timer

T = TypeVar("T")

NO_ANSWER = "no answer in time"
"""Why a connection ends on which a request has waited for as long as it may."""


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
    """A direction of a connection: delivers in order, after a latency, unless it is stalled or cut."""

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
        """Let nothing through for so long; what is on its way comes later."""
        self._stalled_until = self._scheduler.now + seconds
        self._scheduler.at(self._stalled_until, self._pump)

    def cut(self) -> None:
        """Swallow everything from now on, what is on its way included."""
        self._is_cut = True
        self._items.clear()

    @property
    def is_hurt(self) -> bool:
        return self._is_cut or self._stalled_until > self._scheduler.now

    def _pump(self) -> None:
        now = self._scheduler.now
        while self._items and self._items[0][0] <= now and self._stalled_until <= now:
            self._deliver(self._items.popleft()[1])


class Connection:
    """A connection of one client to one node, `latency` seconds away.

    `serve` is the broker's: it takes a request and replies, once. `run_on_client` runs something in the client.
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
        self._requests: Pipe[Request] = Pipe(scheduler, latency, self._arrived)
        self._answers: Pipe[tuple[Request, Any]] = Pipe(scheduler, latency, self._came_back)
        self._waiting: dict[Request, Timer] = {}
        self._queue: deque[Request] = deque()
        self._served: Request | None = None

    def send(self, request: Request) -> None:
        def expire() -> None:
            self._run_on_client(lambda: self.close(NO_ANSWER) if request in self._waiting else None)

        self._waiting[request] = self._scheduler.after(request.timeout, expire)
        self._requests.put(request)

    def close(self, cause: str) -> None:
        """Both ends are done with it. What the broker has begun to do is done all the same."""
        self.is_open = False
        self._queue.clear()
        waiting, self._waiting = self._waiting, {}
        for request, timer in waiting.items():
            timer.cancel()
            self._run_on_client(lambda request=request: request.failed(cause))  # type: ignore[misc]

    # -- what may befall it --------------------------------------------------------------------------

    def stall_requests(self, seconds: float) -> None:
        self._requests.stall(seconds)

    def stall_answers(self, seconds: float) -> None:
        self._answers.stall(seconds)

    def cut(self) -> None:
        """No packet comes through any more, and neither end is told."""
        self._requests.cut()
        self._answers.cut()

    @property
    def is_hurt(self) -> bool:
        return self._requests.is_hurt or self._answers.is_hurt

    # -- the broker's end ----------------------------------------------------------------------------

    def _arrived(self, request: Request) -> None:
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

    def _came_back(self, answered: tuple[Request, Any]) -> None:
        self._run_on_client(lambda: self._take(*answered))

    def _take(self, request: Request, answer: Any) -> None:
        timer = self._waiting.pop(request, None)
        if timer is not None:
            timer.cancel()
            request.answered(answer)
