"""A client's requests: their connections, their encoding, and the machine's events for their responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sarameya.embedded.groups.model.messages import (
    HeartbeatRequest,
    JoinGroupResult,
    JoinRequest,
    LeaveGroupResult,
    LeaveRequest,
    LeavingMember,
    SupportedProtocol,
    SyncGroupResult,
    SyncRequest,
)
from sarameya.model import Generation
from sarameya.protocol.assignors.base import Assignor, Subscription
from sarameya.protocol.membership.messages import (
    Event,
    GroupMember,
    HeartbeatAnswered,
    JoinAnswered,
    LeaveAnswered,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    SyncAnswered,
)
from sarameya.protocol.rebalance import PROTOCOL_TYPE, encode_subscription
from tests.model.brokers import GROUP, Body
from tests.model.environment import Surroundings, Timing
from tests.model.network import Connection, Request

Exchange = SendJoin | SendSync | SendHeartbeat | SendLeave


class Wire:
    """The connections of one client, one for each node and purpose. `do` runs an action in the client's process."""

    def __init__(self, world: Surroundings, name: str, do: Callable[[Callable[[], None]], None]) -> None:
        self._world = world
        self._name = name
        self._do = do
        self._connections: dict[tuple[int, str], Connection] = {}
        self._made = 0

    def send(
        self,
        node_id: int,
        purpose: str,
        body: Body,
        timeout: float,
        answered: Callable[[Any], None],
        failed: Callable[[str], None],
    ) -> None:
        """Send a request. Later either `answered` is called with the response, or `failed` with the cause."""
        connection = self._connections.get((node_id, purpose))
        if connection is None or not connection.is_open:
            self._made += 1
            connection = self._world.connect(self._name, self._made, node_id, self._do)
        if connection is None:
            self._connections.pop((node_id, purpose), None)
            self._world.scheduler.after(0.05, lambda: self._do(lambda: failed("connection refused")))
        else:
            self._connections[node_id, purpose] = connection
            connection.send(Request(body, timeout, answered, failed))

    def connections(self, node_id: int | None = None) -> list[Connection]:
        """Return the open connections; only those to one node, if one is given."""
        return [
            connection
            for (to, _), connection in self._connections.items()
            if connection.is_open and node_id in (None, to)
        ]

    def break_off(self, connection: Connection, cause: str) -> None:
        """Break a connection; its requests fail in the client."""
        connection.cut()
        self._do(lambda: connection.close(cause))

    def close(self) -> None:
        for connection in self.connections():
            connection.close("the client has ended")


def _held_timeout(silences: int, timing: Timing) -> float:
    return timing.session_timeout * (0.5, 0.5, 1.0, 2.0)[min(silences, 3)]


def request_of(
    command: Exchange,
    instance_id: str | None,
    client_id: str,
    protocols: Callable[[SendJoin], tuple[SupportedProtocol, ...]],
    timing: Timing,
) -> tuple[Body, str, float]:
    """Return (request, purpose of the connection, timeout), as in `net/coordinator.py`."""
    in_session, join_timeout = timing.session_timeout / 2, timing.rebalance_timeout + timing.join_margin
    match command:
        case SendJoin(silences=silences):
            timeout = _held_timeout(silences, timing) if command.owned else join_timeout
            return _join(command, instance_id, client_id, protocols(command), timing), "coordinator", timeout
        case SendSync(generation=generation, assignments=assignments, silences=silences):
            return _sync(generation, instance_id, assignments), "coordinator", _held_timeout(silences, timing)
        case SendHeartbeat(generation=generation):
            body = HeartbeatRequest(GROUP, generation.id, generation.member_id, instance_id)
            return body, "coordinator", in_session
        case SendLeave():
            leaving = LeavingMember(command.member_id, instance_id, command.reason)
            return LeaveRequest(GROUP, (leaving,)), "leave", timing.close_timeout


def supported(
    command: SendJoin, topics: tuple[str, ...], assignors: Iterable[Assignor]
) -> tuple[SupportedProtocol, ...]:
    """Return the name of each assignor with the member's subscription, encoded for it."""
    return tuple(
        SupportedProtocol(
            assignor.name,
            encode_subscription(
                Subscription(
                    topics,
                    assignor.subscription_user_data(),
                    owned_partitions=command.owned,
                    generation_id=command.owned_since,
                )
            ),
        )
        for assignor in assignors
    )


def _join(
    command: SendJoin,
    instance_id: str | None,
    client_id: str,
    protocols: tuple[SupportedProtocol, ...],
    timing: Timing,
) -> JoinRequest:
    return JoinRequest(
        GROUP,
        PROTOCOL_TYPE,
        protocols,
        timing.session_timeout,
        timing.rebalance_timeout,
        command.member_id,
        instance_id,
        client_id=client_id,
        reason=command.reason,
    )


def _sync(generation: Generation, instance_id: str | None, assignments: Mapping[str, bytes]) -> SyncRequest:
    return SyncRequest(
        GROUP, generation.id, generation.member_id, instance_id, PROTOCOL_TYPE, generation.protocol, assignments
    )


def event_of(token: int, answer: Any) -> Event:
    """Return the machine's event for a broker's response."""
    match answer:
        case JoinGroupResult():
            return JoinAnswered(
                token,
                answer.error,
                answer.member_id,
                answer.generation,
                answer.protocol_name or "",
                answer.leader,
                tuple(GroupMember(*member) for member in answer.members),
                answer.skip_assignment,
            )
        case SyncGroupResult():
            return SyncAnswered(token, answer.error, answer.assignment)
        case LeaveGroupResult():
            code = answer.error or next((error for _, error in answer.members if error), 0)
            return LeaveAnswered(token, code)
        case _:
            return HeartbeatAnswered(token, answer)
