"""A kit for tests of APIs: a cluster's state without trio or sockets.

Requests and responses are encoded and decoded as on the wire.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from kafka.protocol.api_header import ResponseClassRegistry

from sarameya.embedded.apis import MESSAGES, SERVED_VERSIONS, Call, dispatch
from sarameya.embedded.cluster_state import BrokerNode, BrokerSettings, ClusterState
from sarameya.embedded.network.framing import decode_request, encode_answer
from sarameya.error_codes import ErrorCode
from sarameya.model import TopicPartition
from sarameya.protocol.records.batch_codec import build, decode, split

WALL_TIME = 1_700_000_000.0


class ApiKit:
    """Sends requests to a broker.

    If the broker holds a response, it is added to the list that `ask` has returned, once time or an event releases it.
    """

    def __init__(
        self, topics: Mapping[str, int] | None = None, *, brokers: int = 1, settings: BrokerSettings | None = None
    ) -> None:
        self.now = 0.0
        self.cluster = ClusterState(
            settings or BrokerSettings(), wall_clock=lambda: WALL_TIME + self.now, rng=random.Random(0)
        )
        for node_id in range(brokers):
            self.cluster.node_up(BrokerNode(node_id, f"broker-{node_id}", 9092 + node_id), self.now)
        for name, partitions in (topics or {}).items():
            self.cluster.create_topic(name, partitions)

    def ask(self, request: Any, node_id: int = 0, *, refusal: ErrorCode | None = None) -> list[Any]:
        """Send a versioned kafka-python request to a broker. Return the list that its response is put into.

        Args:
            refusal: The error code with which the broker refuses the request.
        """
        request.with_header(correlation_id=77, client_id="kit")
        decoded = decode_request(bytes(request.encode(header=True)), MESSAGES, SERVED_VERSIONS)
        answers: list[Any] = []

        def reply(answer: Any) -> None:
            frame = bytes(encode_answer(decoded, answer))
            response = ResponseClassRegistry.get_response_class(request.header)
            answers.append(response.decode(frame, header=True, framed=True))
            assert answers[-1].header.correlation_id == 77

        dispatch(Call(self.cluster, node_id, decoded, "/kit", self.now, reply), refusal)
        return answers

    def answer(self, request: Any, node_id: int = 0) -> Any:
        """Send a request and return its response, which must not be held."""
        (answer,) = self.ask(request, node_id)
        return answer

    def sleep(self, seconds: float) -> None:
        """Advance the clock, stopping at each deadline."""
        end = self.now + seconds
        while (deadline := self.cluster.next_deadline()) is not None and deadline <= end:
            self.now = deadline
            self.cluster.handle_timer(self.now)
        self.now = end

    def append(self, topic: str, partition: int, *values: bytes) -> None:
        """Append one batch directly, without a Produce request."""
        self.cluster.append(self.cluster.topics.partition(topic, partition), batch(*values))
        self.cluster.complete_fetches(self.now)


def request(message: Any, version: int, **fields: Any) -> Any:
    """Return a kafka-python request from plain data, structures as dicts.

    Fields that the version lacks are left out.
    """
    return _filled(message, message._struct, version, fields)


def _filled(kind: Any, structure: Any, version: int, fields: Mapping[str, Any]) -> Any:
    values = {}
    for name, value in fields.items():
        field = structure.fields[name]
        if not field.for_version_q(version):
            continue
        if field.is_struct_array() and value is not None:
            value = [_filled(field.data_class, field, version, inner) for inner in value]
        values[name] = value
    return kind(version=version, **values)


def batch(*values: bytes, timestamp: int = 1_000) -> bytes:
    return build([(timestamp, None, value, ()) for value in values])


def values(records: bytes) -> list[bytes | None]:
    partition = TopicPartition("", 0)
    return [message.value for raw in split(bytes(records), partition, 0) for message in decode(raw, partition)]
