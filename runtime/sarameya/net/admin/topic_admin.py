"""Admin client for topics.

Changes go to the controller. A change is not sent again after a lost response, since it may have been made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from sarameya.error_codes import ErrorCode
from sarameya.errors import (
    KafkaError,
    ProtocolError,
    SarameyaError,
    TopicAuthorizationError,
    TopicError,
    TopicExistsError,
    kafka_error,
)
from sarameya.net.admin.cluster_admin import ClusterAdmin
from sarameya.net.broker_pool import Purpose
from sarameya.net.retries import Retries
from sarameya.protocol.cluster.described_topics import DescribedTopic, described_topic, own_settings

BY_DEFAULT = -1
"""Number of partitions or replicas that stands for the brokers' own default."""

_TOPIC = 2
"""Resource type of topics in DescribeConfigs."""

_PASSING = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
"""Error codes of a change that was not made, and that a retry may make."""

_NO_TOPIC = "`sarameya topics list` shows the existing ones"

_ADVICE: Mapping[ErrorCode, str] = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "`sarameya topics describe` shows it",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a name has 1 to 249 of the characters a-z A-Z 0-9 . _ -, and is not . or ..",
    ErrorCode.INVALID_REPLICATION_FACTOR: "there must be at least as many brokers as replicas",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _NO_TOPIC,
    ErrorCode.TOPIC_DELETION_DISABLED: "set delete.topic.enable on the brokers",
}

T = TypeVar("T")


class TopicAdmin(ClusterAdmin):
    """Admin client that describes, creates, grows and deletes topics.

    Use it as `async with TopicAdmin(servers, config, observer)`. Raises as every ClusterAdmin does, and TopicError,
    TopicExistsError, UnknownTopicError and TopicAuthorizationError, which names the missing ACL.
    """

    # -- descriptions --------------------------------------------------------------------------------

    async def list_topics(self) -> list[DescribedTopic]:
        """Return every topic that this principal may see, sorted by name, including Kafka's internal topics."""
        answer = await self._describe(None)
        return sorted((described_topic(row) for row in answer.topics if not row.error_code), key=lambda t: t.name)

    async def describe(self, topics: Iterable[str]) -> list[DescribedTopic]:
        """Return these topics, in this order. Raises the first error if any of them cannot be described."""
        found, refused = await self.describe_existing(topics)
        for error in refused.values():
            raise error
        return found

    async def describe_existing(self, topics: Iterable[str]) -> tuple[list[DescribedTopic], dict[str, SarameyaError]]:
        """Return those of these topics that can be described, in this order, and the errors of the others, by name."""
        names = list(dict.fromkeys(topics))
        rows = {row.name: row for row in (await self._describe(names)).topics}
        found: list[DescribedTopic] = []
        refused: dict[str, SarameyaError] = {}
        for name in names:
            row = _row_of(rows, name)
            try:
                _raise_error(row.error_code, name, "", "DESCRIBE")
            except SarameyaError as error:
                refused[name] = error
            else:
                found.append(described_topic(row))
        return found, refused

    async def settings(self, topics: Iterable[str]) -> dict[str, dict[str, str | None]]:
        """Return the settings that the topics override.

        Returns:
            By topic, the value of each setting by Kafka's name for it, None for a sensitive value. Topics use the
            brokers' values for all other settings.
        """
        row = DescribeConfigsRequest.DescribeConfigsResource
        answer = await self._pool.request_any(
            DescribeConfigsRequest,
            resources=[row(resource_type=_TOPIC, resource_name=name, configuration_keys=None) for name in topics],
            include_synonyms=False,
            include_documentation=False,
        )
        for result in answer.results:
            _raise_error(result.error_code, result.resource_name, result.error_message, "DESCRIBE_CONFIGS")
        return {result.resource_name: own_settings(result) for result in answer.results}

    # -- changes -------------------------------------------------------------------------------------

    async def create(
        self,
        topic: str,
        partitions: int = BY_DEFAULT,
        replication_factor: int = BY_DEFAULT,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic. Raises TopicExistsError, and TopicError for invalid settings."""
        row = CreateTopicsRequest.CreatableTopic
        wanted = row(
            name=topic,
            num_partitions=partitions,
            replication_factor=replication_factor,
            assignments=[],
            configs=[row.CreatableTopicConfig(name=name, value=value) for name, value in (settings or {}).items()],
        )
        await self._change(
            topic, "CREATE", lambda answer: answer.topics, CreateTopicsRequest, topics=[wanted], validate_only=False
        )

    async def grow(self, topic: str, partitions: int) -> None:
        """Increase the number of partitions to `partitions` (KIP-195). Raises TopicError."""
        row = CreatePartitionsRequest.CreatePartitionsTopic
        wanted = row(name=topic, count=partitions, assignments=None)
        await self._change(
            topic, "ALTER", lambda answer: answer.results, CreatePartitionsRequest, topics=[wanted], validate_only=False
        )

    async def delete(self, topic: str) -> None:
        """Delete a topic with all its records. Raises UnknownTopicError, TopicError."""
        await self._change(topic, "DELETE", lambda answer: answer.responses, DeleteTopicsRequest, topic_names=[topic])

    async def _change(
        self, topic: str, operation: str, rows: Callable[[Any], Iterable[Any]], message: Any, **fields: Any
    ) -> None:
        async def send() -> None:
            controller = (await self._describe([])).controller_id
            timeout = int(self._config.request_timeout * 1000)
            answer = await self._pool.request(controller, Purpose.METADATA, message, timeout_ms=timeout, **fields)
            row = _row_of({row.name: row for row in rows(answer)}, topic)
            _raise_error(row.error_code, topic, getattr(row, "error_message", ""), operation)

        await self._with_retries(f"{operation.lower()} topic {topic!r}", send)

    async def _with_retries(self, what: str, send: Callable[[], Awaitable[T]]) -> T:
        retries = Retries(what, self._backoff, self._observer, kind="admin")
        while True:
            try:
                return await send()
            except KafkaError as error:
                if error.code not in _PASSING:
                    raise
                await retries.wait(str(error))

    async def _describe(self, topics: list[str] | None) -> Any:
        row = MetadataRequest.MetadataRequestTopic
        return await self._pool.request_any(
            MetadataRequest,
            topics=None if topics is None else [row(name=name) for name in topics],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )


def _row_of(rows: Mapping[str, Any], topic: str) -> Any:
    if topic not in rows:
        raise ProtocolError(f"the response does not contain the requested topic {topic!r}")
    return rows[topic]


def _raise_error(code: int, topic: str, message: str | None, operation: str) -> None:
    """Raise the error for a broker's error code; return for code 0.

    Args:
        code: The error code.
        topic: The topic that it is about.
        message: The broker's message.
        operation: The ACL operation that the request needs.
    """
    if not code:
        return
    known, context = ErrorCode.of(code), f"topic {topic!r}"
    advice = "; ".join(filter(None, ((message or "").rstrip(" ."), _ADVICE.get(known, ""))))
    match known:
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED | ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            needed = f"it needs the ACL {operation} on the topic{' or on the cluster' * (operation == 'CREATE')}"
            raise TopicAuthorizationError(code, context, needed)
        case ErrorCode.TOPIC_ALREADY_EXISTS:
            raise TopicExistsError(code, context, advice)
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise kafka_error(code, context, advice={known: _NO_TOPIC})
        case _ if known in _PASSING:
            raise kafka_error(code, context)
    raise TopicError(code, context, advice)
