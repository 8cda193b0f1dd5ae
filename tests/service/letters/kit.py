"""Letters for the tests of `sarameya letters`, in memory and in logs."""

from __future__ import annotations

import random
from typing import Any

from sarameya import Config
from sarameya.embedded import EmbeddedCluster
from sarameya.handling.letters import ERRORS, REDRIVEN, Letter
from sarameya.model import Headers, Message, TimestampType
from sarameya.service.groups.topic_choice import TopicChoice
from sarameya.service.letters.log_reader import Clients, Selection
from sarameya.service.letters.redrive import RedriveOptions, redrive
from sarameya.service.letters.redrive_rules import RedriveRules
from sarameya.service.output.command_result import CommandResult
from sarameya.testing import virtual_wall_clock
from tests.producer.kit import values

DEAD = "orders.billing.dead"
GROUP = f"sarameya.letters.{DEAD}"


def failure_headers(
    topic: str | None = "orders",
    partition: int = 0,
    offset: int = 17,
    *,
    error: str = "bad value",
    error_class: str = "builtins.ValueError",
    group: str = "billing",
    redriven: int = 0,
    own: Headers = (),
) -> Headers:
    """Return the headers of a dead letter; without headers about the failure if `topic` is None."""
    facts = {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": 1_790_000_000_000,
        "group": group,
        "attempts": 3,
        "exception.class": error_class,
        "exception.message": error,
        "exception.stacktrace": "Traceback ...\nValueError: bad value",
    }
    count = ((REDRIVEN, str(redriven).encode()),) if redriven else ()
    failure = () if topic is None else tuple((ERRORS + name, str(value).encode()) for name, value in facts.items())
    return (*own, *count, *failure)


def letter(
    headers: Headers = (),
    *,
    partition: int = 0,
    offset: int = 0,
    timestamp: int = 1_790_000_060_000,
    key: bytes | None = b"k",
    value: bytes | None = b"value",
) -> Letter:
    """Return a letter."""
    kind = TimestampType.CREATE_TIME
    return Letter.of(Message(DEAD, partition, offset, timestamp, kind, key, value, headers or failure_headers()))


def clients_of(cluster: EmbeddedCluster, seed: int = 0, **options: Any) -> Clients:
    """Return the clients of a command for an in-memory cluster."""
    config = Config(**{"retry_timeout": 5.0, "request_timeout": 5.0, **options})
    return Clients(cluster.bootstrap_servers, config, cluster.transport, virtual_wall_clock, random.Random(seed))


def write(
    cluster: EmbeddedCluster,
    *values: bytes,
    partition: int = 0,
    headers: Headers = (),
    key: bytes | None = b"k",
    **facts: Any,
) -> None:
    """Write a letter for each value. `facts` are arguments of `failure_headers`, which `headers` replace."""
    for value in values:
        cluster.produce(DEAD, partition, value, key, headers or failure_headers(**facts))


def sent(cluster: EmbeddedCluster, topic: str = "orders") -> list[bytes | None]:
    """Return the values in a topic, by partition."""
    return [value for partition in range(partitions(cluster, topic)) for value in values(cluster, partition, topic)]


def partitions(cluster: EmbeddedCluster, topic: str) -> int:
    """Return the number of partitions of a topic; 0 if it does not exist."""
    found = cluster._state.topics.get(topic)
    return 0 if found is None else len(found.partitions)


async def redriven(cluster: EmbeddedCluster, selection: Selection | None = None, **options: Any) -> CommandResult:
    """Run the redrive with `execute=True`, unless the options have it."""
    rules = {name: options.pop(name) for name in ("to", "is_retry", "max_redrives") if name in options}
    chosen = RedriveOptions(**{"group": GROUP, "execute": True, "rules": RedriveRules(**rules), **options})
    return await redrive(clients_of(cluster), selection or Selection(TopicChoice(DEAD)), chosen)
