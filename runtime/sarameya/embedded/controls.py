"""What hurts a cluster: the controls of `EmbeddedCluster` for tests. None of them waits.

A class of its own for the length of the file alone; `cluster` has the lifetimes, and what feeds a cluster and looks
into it, `log_controls` what concerns logs. What the controls do is `cluster_state`'s and the servers'; here is what
they are called and what they mean.
"""

from __future__ import annotations

from abc import abstractmethod

import trio

from sarameya.embedded.faults import Action, Delay, Drop, Fail, Fault, Half
from sarameya.embedded.log_controls import LogControls
from sarameya.embedded.refusal import Refused
from sarameya.embedded.server import BrokerServer
from sarameya.error_codes import ErrorCode
from sarameya.protocol.cluster.offsets_partition import OFFSETS_TOPIC
from sarameya.protocol.versions import Api


class ClusterControls(LogControls):
    """Base of `EmbeddedCluster`.

    Faults (`fail_next`, `delay_next`, `drop_next`) are armed for the next `count` requests of an API, or for all of
    them (None), until `clear_faults`. They strike any broker's answers to anybody, unless narrowed down: to one
    broker (`broker_id`), to one client (`client_id`, as it calls itself), to requests about one group
    (`group_id`). Of several that would strike a request, the one armed first does.
    """

    @abstractmethod
    def _server(self, broker_id: int) -> BrokerServer: ...

    @abstractmethod
    def _servers(self) -> list[BrokerServer]: ...

    # Answers

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
        """Answer the next `count` requests of `api` with `code`, and do nothing of what they ask."""
        self._arm(api, Fail(code), count, broker_id, client_id, group_id)

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
        """Let the answers to the next `count` requests of `api` come `seconds` after they are ready.

        With `half` "request" it is the requests that come late: what they ask is done only then. All that
        stands behind them on their connections waits, as in Kafka.
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
        """Lose the answers to the next `count` requests of `api`: what they ask is done, and nobody hears of it.

        With `half` "request" it is the requests that are lost: nothing is done. The connection ends with what is
        lost, as when a network fails; without `hang_up` it stays open, and nothing is ever heard on it again.
        """
        self._arm(api, Drop(half, hang_up), count, broker_id, client_id, group_id)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults that are armed and not used up, in the order in which they strike."""
        return self._state.faults.armed

    def clear_faults(self) -> None:
        """Disarm all faults. What has struck already (a delay that runs, a silent connection) goes on."""
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
        """Drop all connections in the middle of whatever they do, or one broker's, or one client's. New ones are
        welcome."""
        for server in self._servers() if broker_id is None else [self._server(broker_id)]:
            server.disconnect(client_id)

    def freeze_broker(self, broker_id: int) -> None:
        """Let a broker hang: it takes connections and requests, does nothing, answers nothing, until `unfreeze_broker`.

        As with a machine that has stopped and that nobody has noticed yet, it goes on leading and coordinating. Members
        that cannot reach it meanwhile expire, as they would at the moment it went on. Raises Refused for a
        broker that is not up; to stop it afterwards ends the freeze.
        """
        self._server(self._state.node(broker_id).id).freeze()

    def unfreeze_broker(self, broker_id: int) -> None:
        """Let a frozen broker go on, with what has been asked of it meanwhile."""
        self._server(broker_id).unfreeze()

    # Leaders and coordinators

    def move_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Let another broker lead, under the next epoch. One without a replica gets that of the last of them.

        The old leader, if it follows now, answers FENCED_LEADER_EPOCH to who asks with the old epoch, and serves reads
        to who asks with none (KIP-392); without a replica it answers NOT_LEADER_OR_FOLLOWER. A follower that is held
        (`hold_replica`) has less than was written: what it lacks is lost, as after an unclean election.
        """
        self._state.move_leader(topic, partition, broker_id, trio.current_time())
        self._rearm()

    def move_coordinator(self, group_id: str, broker_id: int, *, load_time: float | None = None) -> None:
        """Let another broker coordinate the group, and those that share its partition of `__consumer_offsets`.

        What the old one held is answered NOT_COORDINATOR, as is what still comes to it. The new one reads its
        groups for `load_time` seconds (None: `CoordinatorConfig.load_time`) and answers COORDINATOR_LOAD_IN_PROGRESS
        meanwhile; it knows of them what the log does.
        """
        number = self._state.offsets_partition(group_id).topic_partition.partition
        self._state.move_leader(OFFSETS_TOPIC, number, broker_id, trio.current_time(), load_time)
        self._rearm()

    # Groups

    def expire_member(self, group_id: str, member_id: str) -> None:
        """End a member's session now, as if nothing had been heard of it for its session timeout.

        `describe_group` tells the member ids. Raises Refused with UNKNOWN_MEMBER_ID if the group has no such member.
        """
        coordinator = self._state.coordinator(self._state.coordinator_node(group_id).id)
        error = coordinator.expire_member(group_id, member_id, trio.current_time())
        if error is not ErrorCode.NONE:
            raise Refused(error, f"group {group_id!r} has no member {member_id!r}")
        self._rearm()
