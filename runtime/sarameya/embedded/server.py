"""One broker on the wire: its connections, each a task that reads a request, waits for the answer, sends it.

A connection's requests are answered one after another, as Kafka does: the next is read when the last has been
answered. So a held join or long poll stops its own connection and no other. What a request means is
decided by `apis`, on state that this file never touches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from sarameya.embedded.apis import MESSAGES, SERVED_VERSIONS, Call, dispatch
from sarameya.embedded.cluster_state import ClusterState
from sarameya.embedded.framing import DEFAULT_MAX_FRAME_SIZE, FrameReader, Request, decode_request, encode_answer
from sarameya.errors import ProtocolError

logger = logging.getLogger(__name__)


class BrokerServer:
    """Serves the connections of broker `node_id`. Calls `on_change` after each request: deadlines may have moved."""

    def __init__(
        self,
        cluster: ClusterState,
        node_id: int,
        on_change: Callable[[], None],
        *,
        max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
    ) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self._on_change = on_change
        self._max_frame_size = max_frame_size
        self._connections: set[trio.CancelScope] = set()

    def disconnect(self) -> None:
        """Drop every connection, in the middle of whatever it does. New ones are welcome."""
        for scope in self._connections:
            scope.cancel()

    async def serve(self, stream: trio.abc.Stream, client_host: str) -> None:
        """Serve one connection until it ends, by either side; closes `stream`. Raises nothing of the connection's."""
        with trio.CancelScope() as scope:
            self._connections.add(scope)
            try:
                async with stream:
                    await self._converse(stream, client_host)
            except ProtocolError as error:
                logger.warning("broker %d: connection from %s closed: it sent %s", self._node_id, client_host, error)
            except trio.BrokenResourceError:
                logger.debug("broker %d: connection from %s lost", self._node_id, client_host)
            except Exception:
                logger.exception("broker %d: connection from %s closed: our own fault", self._node_id, client_host)
            finally:
                self._connections.discard(scope)

    async def _converse(self, stream: trio.abc.Stream, client_host: str) -> None:
        frames = FrameReader(self._max_frame_size)
        while True:
            frame = frames.next_frame()
            if frame is None:
                data = await stream.receive_some()
                if not data:
                    if not frames.is_empty:
                        raise ProtocolError("a frame that was cut off")
                    return
                frames.receive(data)
                continue
            request = decode_request(frame, MESSAGES, SERVED_VERSIONS)
            answer = await self._answer(request, client_host)
            if request.expects_answer:
                await stream.send_all(answer)

    async def _answer(self, request: Request, client_host: str) -> bytes | bytearray:
        slot = _Slot()
        dispatch(Call(self._cluster, self._node_id, request, client_host, trio.current_time(), slot.put))
        self._on_change()
        return encode_answer(request, await slot.get())


class _Slot:
    """Where a request's task waits for its answer. If the task is gone, the answer is dropped here."""

    def __init__(self) -> None:
        self._filled = trio.Event()
        self._answer: Any = None

    def put(self, answer: Any) -> None:
        self._answer = answer
        self._filled.set()

    async def get(self) -> Any:
        await self._filled.wait()
        return self._answer
