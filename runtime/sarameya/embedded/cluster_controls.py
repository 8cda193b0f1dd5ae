"""Failures that tests cause in a cluster on purpose: the controls of `EmbeddedCluster`.

They form a separate class only to keep files short. `cluster` has the lifetime, producing and inspection;
`log_controls` has the controls of logs. Each control calls `cluster_state` or a broker's server and returns at once.
"""

from __future__ import annotations

from abc import abstractmethod

import trio

from sarameya.embedded.faults import Action, Delay, Drop, ErrorResponse, Fault, Half
from sarameya.embedded.log_controls import LogControls
from sarameya.embedded.network.server import BrokerServer
from sarameya.embedded.refusal import Refused
from sarameya.error_codes import ErrorCode
from sarameya.protocol.cluster.offsets_partition import OFFSETS_TOPIC
from sarameya.protocol.versions import Api


class ClusterControls(LogControls):
    """Base class of `EmbeddedCluster`.

    `fail_next`, `delay_next` and `drop_next` arm a fault for the next `count` requests of an API, or for all of them
    (None), until `clear_faults`. A fault matches requests of any client to any broker, unless it names a broker
    (`broker_id`), a client (`client_id`) or a group (`group_id`). If several faults match a request, the one armed
    first is applied.
    """

    @abstractmethod
    def _server(self, broker_id: int) -> BrokerServer:
        """Return the server of a broker."""

    @abstractmethod
    def _servers(self) -> list[BrokerServer]:
        """Return the servers of all brokers."""

    # Faults

    def fail_next(
        self,
        api: Api,
        code: ErrorCode,
        count: int | None = 1,
        *,
        broker_id: int | None = None,
        client_id: str | None = None,
        group_id: str | None = None,
    ) -> None:
        """Respond with `code` to the next `count` requests of `api`, without processing them."""
        self._arm(api, ErrorResponse(code), count, broker_id, client_id, group_id)

    def delay_next(
        self,
        api: Api,
        seconds: float,
        count: int | None = 1,
        *,
        half: Half = "answer",
        broker_id: int | None = None,
        client_id: str | None = None,
        group_id: str | None = None,
    ) -> None:
        """Delay the responses to the next `count` requests of `api` by `seconds`.

        With `half="request"` the requests are delayed instead, so that they are processed later. Later requests on the
        same connection wait, as in Kafka.
        """
        self._arm(api, Delay(seconds, half), count, broker_id, client_id, group_id)

    def drop_next(
        self,
        api: Api,
        count: int | None = 1,
        *,
        half: Half = "answer",
        hang_up: bool = True,
        broker_id: int | None = None,
        client_id: str | None = None,
        group_id: str | None = None,
    ) -> None:
        """Drop the responses to the next `count` requests of `api`: these are processed, but clients get no response.

        With `half="request"` the requests are dropped instead, and nothing is processed. The connection closes, as when
        a network fails. Without `hang_up` it stays open, and no further request on it is read.
        """
        self._arm(api, Drop(half, hang_up), count, broker_id, client_id, group_id)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The armed faults that are not used up, in the order in which they are tried."""
        return self._state.faults.armed

    def clear_faults(self) -> None:
        """Disarm all faults. A fault that is already applied (a running delay, a silent connection) continues."""
        self._state.faults.clear()

    def _arm(
        self,
        api: Api,
        action: Action,
        count: int | None,
        broker_id: int | None,
        client_id: str | None,
        group_id: str | None,
    ) -> None:
        self._state.faults.arm(
            Fault(api=api, action=action, remaining=count, broker_id=broker_id, client_id=client_id, group_id=group_id)
        )

    # Brokers

    def disconnect(self, broker_id: int | None = None, *, client_id: str | None = None) -> None:
        """Drop all connections at once, or only those of one broker or of one client. Clients may reconnect."""
        for server in self._servers() if broker_id is None else [self._server(broker_id)]:
            server.disconnect(client_id)

    def freeze_broker(self, broker_id: int) -> None:
        """Freeze a broker: it accepts connections and requests but processes nothing, until `unfreeze_broker`.

        As with a machine that hangs before anyone notices, it still leads and coordinates. Members that cannot reach it
        expire meanwhile. Stopping the broker ends the freeze.

        Raises:
            Refused: The broker is not up.
        """
        self._server(self._state.node(broker_id).id).freeze()

    def unfreeze_broker(self, broker_id: int) -> None:
        """Unfreeze a broker. It then processes the requests that have arrived meanwhile."""
        self._server(broker_id).unfreeze()

    # Leaders and coordinators

    def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Make another broker the leader of a partition, under the next leader epoch.

        A new leader without a replica replaces the last broker in the list of replicas. An old leader that still has a
        replica answers FENCED_LEADER_EPOCH to requests with the old epoch, and serves reads without an epoch (KIP-392).
        Without a replica it answers NOT_LEADER_OR_FOLLOWER. A new leader that lags (`hold_replica`) truncates the log
        to its own end, as after an unclean election.
        """
        self._state.move_leader(topic, partition, broker_id, trio.current_time())
        self._rearm()

    def move_coordinator(self, group_id: str, broker_id: int, *, load_time: float | None = None) -> None:
        """Make another broker the coordinator of a group, and of all groups in its partition of `__consumer_offsets`.

        The old coordinator answers NOT_COORDINATOR to held and later requests. The new one loads the groups from the
        log and answers COORDINATOR_LOAD_IN_PROGRESS meanwhile; it knows only what the log contains.

        Args:
            group_id: The group.
            broker_id: The new coordinator.
            load_time: Seconds that loading takes; None: `CoordinatorConfig.load_time`.
        """
        number = self._state.offsets_partition(group_id).topic_partition.partition
        self._state.move_leader(OFFSETS_TOPIC, number, broker_id, trio.current_time(), load_time)
        self._rearm()

    # Groups

    def expire_member(self, group_id: str, member_id: str) -> None:
        """End a member's session now, as if its session timeout had passed without a heartbeat.

        `describe_group` lists the member ids.

        Raises:
            Refused: UNKNOWN_MEMBER_ID if the group has no such member.
        """
        coordinator = self._state.coordinator(self._state.coordinator_node(group_id).id)
        error = coordinator.expire_member(group_id, member_id, trio.current_time())
        if error is not ErrorCode.NONE:
            raise Refused(error, f"group {group_id!r} has no member {member_id!r}")
        self._state.complete_fetches(trio.current_time())
        self._rearm()
