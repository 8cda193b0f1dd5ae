"""The connections of a broker. Each has a task that reads a request, waits for its response, and sends it.

As in Kafka, the requests of one connection are answered one after another: the next request is read after the last
response was sent. A held join or long poll therefore blocks its own connection and no other.

`apis` processes the requests; this module never touches the cluster's state. `faults` decides which requests fail.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from sarameya.embedded.apis import MESSAGES, SERVED_VERSIONS, Call, dispatch
from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.faults import Action, Delay, Drop, ErrorResponse, Half
from sarameya.embedded.network.framing import (
    DEFAULT_MAX_FRAME_SIZE,
    FrameReader,
    ReceivedRequest,
    decode_request,
    encode_answer,
)
from sarameya.embedded.sasl import SaslServerAuthenticator
from sarameya.error_codes import ErrorCode
from sarameya.errors import ProtocolError

logger = logging.getLogger(__name__)


class BrokerServer:
    """Serves the connections of broker `node_id`.

    Calls `on_change` after each request, since deadlines may have moved.
    """

    def __init__(
        self,
        cluster: ClusterState,
        node_id: int,
        on_change: Callable[[], None],
        *,
        max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
        authenticator: Callable[[], SaslServerAuthenticator] | None = None,
    ) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._on_change = on_change
        self._max_frame_size = max_frame_size
        self._authenticator = authenticator
        """Creates the SASL authenticator of a connection; None if clients need not authenticate."""
        self._connections: dict[trio.CancelScope, str] = {}
        """Open connections, each with the client id of its last request."""
        self._frozen: trio.Event | None = None
        """Set when the broker is unfrozen; None unless it is frozen."""

    def disconnect(self, client_id: str | None = None) -> None:
        """Drop every connection, or one client's, at once. Later connections are accepted."""
        for scope, client in self._connections.items():
            if client_id in (None, client):
                scope.cancel()

    def freeze(self) -> None:
        """Accept connections and bytes but process nothing and send nothing, until `unfreeze`."""
        if self._frozen is None:
            self._frozen = trio.Event()

    def unfreeze(self) -> None:
        """Continue after `freeze`, with the requests that arrived meanwhile."""
        if self._frozen is not None:
            self._frozen.set()
            self._frozen = None

    async def serve(self, stream: trio.abc.Stream, client_host: str) -> None:
        """Serve one connection until either side closes it, then close `stream`.

        Errors of the connection are logged, not raised.
        """
        with trio.CancelScope() as scope:
            self._connections[scope] = ""
            try:
                async with stream:
                    await self._serve_requests(stream, client_host, scope)
            except ProtocolError as error:
                logger.warning(
                    "broker %d: connection from %s closed after a protocol error: %s", self._node_id, client_host, error
                )
            except trio.BrokenResourceError:
                logger.debug("broker %d: connection from %s lost", self._node_id, client_host)
            except Exception:
                logger.exception("broker %d: connection from %s closed: internal error", self._node_id, client_host)
            finally:
                del self._connections[scope]

    async def _serve_requests(self, stream: trio.abc.Stream, client_host: str, scope: trio.CancelScope) -> None:
        frames = FrameReader(self._max_frame_size)
        authenticator = self._authenticator() if self._authenticator else None
        while True:
            frame = frames.next_frame()
            if frame is None:
                data = await stream.receive_some()
                if not data:
                    if not frames.is_empty:
                        raise ProtocolError("the last frame is incomplete")
                    return
                frames.receive(data)
                continue
            request = decode_request(frame, MESSAGES, SERVED_VERSIONS)
            self._connections[scope] = request.client_id
            if not await self._exchange(stream, request, client_host, authenticator):
                return

    async def _exchange(
        self,
        stream: trio.abc.Stream,
        request: ReceivedRequest,
        client_host: str,
        authenticator: SaslServerAuthenticator | None,
    ) -> bool:
        """Process a request and send its response, unless a fault prevents it. Return False to close the connection."""
        await self._while_frozen()
        fault = self._cluster.faults.take(self._node_id, request)
        if fault is not None and not await _apply_fault("request", fault, stream):
            return False
        refusal = fault.code if isinstance(fault, ErrorResponse) else None
        response = authenticator.handle(request, trio.current_time()) if authenticator and refusal is None else None
        if response is None:
            answer = await self._answer(request, client_host, refusal)
        else:
            answer = encode_answer(request, response)
        if fault is not None and not await _apply_fault("answer", fault, stream):
            return False
        await self._while_frozen()
        if request.expects_answer:
            await stream.send_all(answer)
        return authenticator is None or not authenticator.is_closed

    async def _answer(self, request: ReceivedRequest, client_host: str, refusal: ErrorCode | None) -> bytes:
        pending = _PendingResponse()
        call = Call(self._cluster, self._node_id, request, client_host, trio.current_time(), pending.put)
        dispatch(call, refusal)
        self._on_change()
        return encode_answer(request, await pending.get())

    async def _while_frozen(self) -> None:
        while self._frozen is not None:
            await self._frozen.wait()


async def _apply_fault(half: Half, fault: Action, stream: trio.abc.Stream) -> bool:
    """Apply a delay or a drop to one half of an exchange. Return False if that half is lost."""
    if isinstance(fault, Delay) and fault.half == half:
        await trio.sleep(fault.seconds)
    elif isinstance(fault, Drop) and fault.half == half:
        while not fault.hang_up and await stream.receive_some():
            pass
        return False
    return True


class _PendingResponse:
    """The pending response of a request. If the connection's task has ended, nobody reads a response put here."""

    def __init__(self) -> None:
        self._answer: Any = None
        self._filled: trio.Event | None = None

    def put(self, answer: Any) -> None:
        self._answer = answer
        if self._filled is not None:
            self._filled.set()

    async def get(self) -> Any:
        # Most responses have been put already. Then this is no checkpoint; reading and writing the connection are.
        if self._answer is None:
            self._filled = trio.Event()
            await self._filled.wait()
        return self._answer
