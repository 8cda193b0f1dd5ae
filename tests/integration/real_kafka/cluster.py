"""A real Kafka cluster on loopback: one broker, or three for tests that kill, stop or freeze one of them.

It owns the order of starting and stopping, the properties that its brokers share, topics, and Kafka's own admin tools.
Functions that are not async block; a trio test calls them through `trio.to_thread.run_sync`.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs
import trio
from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from sarameya import CommittedOffset, Config, GroupAdmin
from sarameya import TopicPartition as Partition
from tests.integration.real_kafka.jars import KAFKA_VERSION, kafka_jars
from tests.integration.real_kafka.kerberos import HOST_NAME
from tests.integration.real_kafka.node import KafkaStartError, Node, free_ports, java
from tests.integration.real_kafka.security import LISTENERS, Security

GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

_START_SECONDS = 60
_TOPIC_SECONDS = 20
_TOOL_SECONDS = 60
_POLL_SECONDS = 0.1


Commits = Mapping[Partition, CommittedOffset]


class ToolError(Exception):
    """A failure of one of Kafka's admin tools, with its output."""


@attrs.frozen(order=True)
class GroupLine:
    """A partition of a group, as Kafka's own tool shows it. None stands for the tool's "-"."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member_id: str | None
    client_id: str | None

    @classmethod
    def read(cls, line: dict[str, str]) -> GroupLine:
        def number(column: str) -> int | None:
            return None if line[column] == "-" else int(line[column])

        def text(column: str) -> str | None:
            return None if line[column] == "-" else line[column]

        return cls(
            line["TOPIC"],
            int(line["PARTITION"]),
            number("CURRENT-OFFSET"),
            number("LOG-END-OFFSET"),
            number("LAG"),
            text("CONSUMER-ID"),
            text("CLIENT-ID"),
        )


def run_tool(bootstrap_servers: Iterable[str], main: str, *args: str, version: str = KAFKA_VERSION) -> str:
    """Run a tool of a Kafka version against any cluster, and return its output. Raises ToolError."""
    command = java(kafka_jars(version), main, "--bootstrap-server", ",".join(bootstrap_servers), *args)
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False)
    if done.returncode != 0:
        raise ToolError(f"{main} {' '.join(args)} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class RealKafka:
    """A running Kafka cluster: `with RealKafka(directory) as kafka`.

    It is formatted and started on entry, on free loopback ports. On exit its data is removed; the brokers' logs
    (`directory/<node id>/server.log`) stay.

    Args:
        directory: the parent of the brokers' directories; it may not exist yet.
        brokers: the number of brokers.
        version: a release of Kafka with KRaft.
        properties: properties of the brokers, added to those set here or in their place.
        proxied: give each broker a second listener that advertises another port, for a proxy (`Node.proxy`).
        racks: the rack of each broker; brokers then send consumers to the replica in their rack (KIP-392).
        security: give the brokers listeners with TLS and authentication too (`security.py`).
    """

    def __init__(
        self,
        directory: Path,
        brokers: int = 1,
        version: str = KAFKA_VERSION,
        properties: Mapping[str, str] | None = None,
        proxied: bool = False,
        racks: Sequence[str] = (),
        security: Security | None = None,
    ) -> None:
        self._directory = directory
        self._brokers = brokers
        self.version = version
        self._properties = dict(properties or {})
        self._proxied = proxied
        self._racks = racks
        self.security = security
        self._stack = ExitStack()
        self.nodes: tuple[Node, ...] = ()

    def __enter__(self) -> Self:
        jars = kafka_jars(self.version)
        ports = iter(free_ports((4 + len(LISTENERS)) * self._brokers))
        self.nodes = tuple(self._node(n, jars, ports) for n in range(1, self._brokers + 1))
        cluster_id = _new_cluster_id()
        with ExitStack() as stack:
            for node in self.nodes:
                stack.callback(shutil.rmtree, node.directory / "data", ignore_errors=True)
                node.format(cluster_id, self._shared() | self._own(node))
            for node in self.nodes:
                # Kill: the data is not needed any more, and a stop of the last broker would wait long for a quorum.
                stack.callback(node.kill)
                node.start()
            admin = self.admin()
            self.until(lambda: self._all_answer(admin), _START_SECONDS, f"{self._brokers} broker(s) to answer")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def bootstrap_servers(self) -> list[str]:
        return [node.address for node in self.nodes]

    def create_topic(
        self, name: str, partitions: int = 1, *, replicas: Sequence[Sequence[int]] = (), **options: object
    ) -> str:
        """Create a topic, wait until each partition has a leader, and return its name.

        Args:
            name: the name of the topic.
            partitions: the number of partitions, each replicated to every broker.
            replicas: in place of `partitions`, the node ids of each partition, the preferred leader first.
            options: Kafka's topic options, with underscores for dots.
        """
        admin = self.admin()
        config = {option.replace("_", "."): str(value) for option, value in options.items()}
        if replicas:
            partitions = len(replicas)
            topic = NewTopic(name, partitions, replica_assignment=[list(nodes) for nodes in replicas], config=config)
        else:
            topic = NewTopic(name, partitions, self._brokers, config=config)
        [done] = admin.create_topics([topic]).values()
        done.result(_TOPIC_SECONDS)
        self.until(lambda: _leaders(admin, name) == partitions, _TOPIC_SECONDS, f"the leaders of {name!r}")
        return name

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Increase the topic to `partitions` partitions in all, and wait until each has a leader."""
        admin = self.admin()
        [done] = admin.create_partitions([NewPartitions(topic, partitions)]).values()
        done.result(_TOPIC_SECONDS)
        self.until(lambda: _leaders(admin, topic) == partitions, _TOPIC_SECONDS, f"the leaders of {topic!r}")

    def run_tool(self, main: str, *args: str) -> str:
        """Run one of Kafka's tools against this cluster, and return its output. Raises ToolError.

        `main` is its class, for example `org.apache.kafka.tools.TopicCommand`.
        """
        return run_tool(self.bootstrap_servers, main, *args, version=self.version)

    def describe_group(self, group: str) -> list[GroupLine]:
        """Return the lines of `ConsumerGroupCommand --describe`, ordered by topic and partition.

        The list is empty if it shows no table: the group does not exist, or has neither members nor commits yet.
        """
        shown = self.run_tool(GROUP_COMMAND, "--describe", "--group", group)
        rows = [line.split() for line in shown.splitlines() if line.strip()]
        header = next((row for row in rows if row[0] == "GROUP"), [])
        lines = [dict(zip(header, row, strict=True)) for row in rows if row[0] == group]
        return sorted(GroupLine.read(line) for line in lines)

    def await_members(self, group: str, count: int, seconds: float) -> None:
        """Wait until the group is stable with `count` members."""
        admin = self.admin()
        self.until(lambda: _stable_members(admin, group) == count, seconds, f"{count} members of {group!r}")

    async def until_committed(self, group: str, offsets: int, seconds: float) -> None:
        """Wait until the group's committed offsets add up to `offsets`."""
        with trio.fail_after(seconds):
            await self.until_commits(group, lambda commits: sum(c.offset for c in commits.values()) >= offsets)

    async def until_commits(self, group: str, condition: Callable[[Commits], bool] = lambda commits: True) -> Commits:
        """Wait until the group's commits meet a condition, and return them. librdkafka's own request crashed."""
        async with GroupAdmin(self.bootstrap_servers, Config(), lambda event: None) as admin:
            while not condition(commits := await admin.committed(group)):
                await trio.sleep(0.2)
        return commits

    def coordinator(self, group: str) -> Node:
        """Return the broker that coordinates a group, as `ConsumerGroupCommand --describe --state` shows it."""
        shown = self.run_tool(GROUP_COMMAND, "--describe", "--state", "--group", group)
        match = re.search(r"\((\d+)\)", shown)
        if match is None:
            raise ToolError(f"no coordinator in:\n{shown}")
        return next(node for node in self.nodes if node.node_id == int(match[1]))

    def admin(self) -> AdminClient:
        """Return an admin client of librdkafka that logs nothing."""
        return AdminClient({"bootstrap.servers": ",".join(self.bootstrap_servers), "log_level": 0})

    def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait for a condition that an admin client can check.

        Raises:
            KafkaStartError: the condition is not true after `seconds`, or a broker has ended. `what` names it.
        """
        deadline = time.monotonic() + seconds
        while not _holds(condition):
            for node in self.nodes:
                node.check_running()
            if time.monotonic() > deadline:
                logs = "\n".join(node.last_lines() for node in self.nodes)
                raise KafkaStartError(f"waited {seconds:g} s for {what}:\n{logs}")
            time.sleep(_POLL_SECONDS)

    def _node(self, number: int, jars: Path, ports: Iterator[int]) -> Node:
        own = (next(ports), next(ports), self._proxy(next(ports), next(ports)))
        node = Node(number, self._directory / str(number), jars, *own)
        if self.security is not None:
            node.others = {name: next(ports) for name in LISTENERS}
            node.scram_users = self.security.scram_users()
            node.jvm_options = self.security.jvm_options
        return node

    def at(self, listener: str) -> list[str]:
        """Return the brokers' addresses at a listener of `security.LISTENERS`."""
        return [f"{HOST_NAME}:{node.others[listener]}" for node in self.nodes]

    def _proxy(self, *ports: int) -> tuple[int, int] | None:
        port, proxy_port = ports
        return (port, proxy_port) if self._proxied else None

    def _shared(self) -> dict[str, str]:
        replicas = str(self._brokers)
        protocols = {**dict.fromkeys(("PLAINTEXT", "PROXIED", "CONTROLLER"), "PLAINTEXT"), **LISTENERS}
        return {
            "controller.quorum.voters": ",".join(node.voter for node in self.nodes),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "auto.create.topics.enable": "false",
            # Leaders move when a test moves them.
            "auto.leader.rebalance.enable": "false",
            # Tests are short: a group's first rebalance does not wait, and session timeouts may be short.
            "group.initial.rebalance.delay.ms": "0",
            # The controller fences a killed broker after three seconds instead of nine.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            "group.min.session.timeout.ms": "500",
            # Each check for expired offsets of Kafka 4 also deletes empty groups without commits: not during a test.
            "offsets.retention.check.interval.ms": str(24 * 3_600_000),
            # Each partition of the internal topics costs files and start-up time; five are enough for tests.
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": "5",
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": "1",
            "log.cleaner.dedupe.buffer.size": str(4 * 2**20),
            # Compact soon.
            "log.cleaner.backoff.ms": "200",
            **(self.security.properties() if self.security else {}),
            **self._properties,
        }

    def _own(self, node: Node) -> dict[str, str]:
        """Return the properties of one broker that differ from the others'."""
        if not self._racks:
            return {}
        selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        return {"broker.rack": self._racks[node.node_id - 1], "replica.selector.class": selector}

    def _all_answer(self, admin: AdminClient) -> bool:
        return len(admin.list_topics(timeout=1).brokers) == self._brokers


def _new_cluster_id() -> str:
    """Return a cluster id as Kafka creates it; it never starts with "-", which a tool would take for an option."""
    cluster_id = "-"
    while cluster_id.startswith("-"):
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return cluster_id


def _leaders(admin: AdminClient, topic: str) -> int:
    partitions = admin.list_topics(topic, timeout=1).topics[topic].partitions
    return sum(partition.leader >= 0 for partition in partitions.values())


def _stable_members(admin: AdminClient, group: str) -> int:
    described = admin.describe_consumer_groups([group])[group].result()
    return len(described.members) if described.state is ConsumerGroupState.STABLE else 0


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except KafkaException:  # not up yet, or between two leaders
        return False
