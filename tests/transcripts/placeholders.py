"""The ids, generations and epochs that a play's clients have received. They replace the placeholders in requests."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import attrs
from kafka.protocol.consumer import FetchResponse, JoinGroupResponse
from kafka.protocol.producer import InitProducerIdResponse

from sarameya.error_codes import ErrorCode
from tests.transcripts.batches import Batch
from tests.transcripts.responses import Names
from tests.transcripts.script import (
    FetchSession,
    Generation,
    Group,
    Id,
    Instance,
    Producer,
    Protocol,
    Topic,
    TopicId,
)

_UNKNOWN_ID = uuid.UUID("00000000-0000-4000-8000-00000000dead")
"""An id that no topic has."""


@attrs.define(slots=True)
class _Client:
    """State of a client: as a member, as a producer, as a reader."""

    ids: list[str] = attrs.field(factory=list)
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    instance: str | None = None
    producer: tuple[int, int] = (-1, -1)
    """Id and epoch."""
    session: int = 0


class Notes:
    """Notes of the play `name`, the prefix of its groups and topics."""

    def __init__(self, name: str) -> None:
        self.group = name
        self.names = Names(name)
        self._clients: dict[str, _Client] = {}
        self._topic_ids: dict[tuple[str, bool], uuid.UUID] = {}

    def topic(self, name: str) -> str:
        return f"{self.group}.{name}"

    def producer(self, by: str) -> str:
        """Return the transactional id of a client."""
        return f"{self.group}.{by}"

    def learn_topic(self, name: str, topic_id: uuid.UUID, *, recreated: bool = False) -> None:
        """Note the id of the play's topic `name`, or of the topic that was recreated in its place."""
        self._topic_ids[name, recreated] = topic_id
        self.names.learn_topic(topic_id, f"{name}, recreated" if recreated else name)

    # Requests

    def fill(self, value: Any) -> Any:
        """Return a request's fields with all placeholders replaced."""
        match value:
            case Group(name):
                return f"{self.group}-{name}" if name else self.group
            case Topic(name):
                return self.topic(name)
            case TopicId(name, recreated):
                return self._topic_ids.get((name, recreated), _UNKNOWN_ID)
            case Batch():
                return value.encoded(self.fill(value.producer), self.fill(value.epoch))
            case Mapping():
                return {key: self.fill(item) for key, item in value.items()}
            case list():
                return [self.fill(item) for item in value]
            case tuple():
                return b"".join(self.fill(item) for item in value)
            case Id() | Generation() | Protocol() | Instance() | Producer() | FetchSession():
                return self._known(value, self._client(value.by))
            case _:
                return value

    @staticmethod
    def _known(value: Any, client: _Client) -> Any:
        match value:
            case Id(_, nth):
                return client.ids[nth] if client.ids else ""
            case Generation(_, plus):
                return client.generation + plus
            case Protocol(_, field):
                return getattr(client, f"protocol_{field}")
            case Instance():
                return client.instance
            case Producer(_, field):
                return client.producer[field == "epoch"]
            case FetchSession():
                return client.session

    def joins(self, by: str, instance: str | None) -> None:
        """Note the instance id with which the client joins."""
        self._client(by).instance = instance

    # Responses

    def learn(self, by: str, answer: Any) -> None:
        """Note the ids, generation and epochs in a response to the client."""
        if isinstance(answer, JoinGroupResponse):
            self._learn_join(by, answer)
        elif isinstance(answer, InitProducerIdResponse) and answer.error_code == ErrorCode.NONE:
            self._client(by).producer = answer.producer_id, answer.producer_epoch
            self.names.learn_producer(answer.producer_id, by)
        elif isinstance(answer, FetchResponse) and answer.session_id:
            self._client(by).session = answer.session_id
            self.names.learn_session(answer.session_id, by)

    def _learn_join(self, by: str, answer: Any) -> None:
        client = self._client(by)
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED) and answer.member_id not in client.ids:
            self.names.learn_member(answer.member_id, by, client.instance, len(client.ids))
            client.ids.append(answer.member_id)
        if answer.error_code == ErrorCode.NONE:
            client.generation = answer.generation_id
            client.protocol_type, client.protocol_name = answer.protocol_type, answer.protocol_name

    def _client(self, by: str) -> _Client:
        return self._clients.setdefault(by, _Client())
