"""Responses made comparable: ids that differ between plays become names, and default values are left out.

The names of ids: a member id is named after the connection that received it (`<a>`, then `<a 2>`); so are ids of
producers and of fetch sessions. Groups, topics and brokers are named after their role in the play. Error codes have
their names. Arrays of structures are sorted, since brokers keep them in hash maps. Records are recorded batch by batch
(`batches`).
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import ListGroupsResponse

from sarameya.error_codes import ErrorCode
from tests.transcripts.batches import described
from tests.transcripts.group_requests import READS_ORDERS

Plain = Any
"""A JSON value: None, a bool, int or str, or a list or dict of JSON values."""

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

# The wait of a throttled client; it depends on the load.
_OMITTED = frozenset({"throttle_time_ms"})


# Fields that identify the elements of arrays.
_IDENTITY = (
    *("group_id", "key", "name", "partition_index", "member_id", "group_instance_id"),
    *("topic", "topic_id", "partition", "index", "node_id", "batch_index", "producer_id", "first_offset"),
)

# Fields of responses about logs that are omitted if they have the default value, as in versions without the field.
_DEFAULTS: Mapping[str, Any] = {
    "log_append_time_ms": -1,
    "record_errors": [],
    "diverging_epoch": None,
    "current_leader": None,
    "snapshot_id": None,
    "preferred_read_replica": -1,
    "node_endpoints": [],
}

_FIRST_REAL_TIME = 1_650_000_000_000
"""In milliseconds. Records of transcripts have older timestamps; brokers write their own with the current time."""

_BROKER_IDS = ("node_id", "leader_id", "preferred_read_replica")

_BYTES = {READS_ORDERS: "<reads orders>"}


class Names:
    """Names for the ids of one play. Use them after its end, since ids are added during the whole play."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._names: dict[str, str] = {}
        self._producers: dict[int, str] = {}
        self._sessions: dict[int, str] = {}
        self._brokers: dict[int, tuple[int, str, int]] = {}
        """Node id -> index among the brokers, host, port."""

    def learn_member(self, member_id: str, by: str, instance: str | None, nth: int) -> None:
        """Name the `nth` member id that connection `by` received. Its usual form: client or instance id, "-", UUID."""
        if member_id in self._names:
            return  # another connection received it first
        name = by if nth == 0 else f"{by} {nth + 1}"
        form = re.sub(_UUID, "uuid", member_id)
        is_usual = form == f"{by if instance is None else instance}-uuid"
        self._names[member_id] = f"<{name}>" if is_usual else f"<{name}, in the form {form}>"

    def learn_topic(self, topic_id: uuid.UUID, name: str) -> None:
        self._names[str(topic_id)] = f"<{name}>"

    def knows(self, topic_id: uuid.UUID | None) -> bool:
        return str(topic_id) in self._names

    def learn_producer(self, producer_id: int, by: str) -> None:
        if producer_id not in self._producers:
            self._producers[producer_id] = _next("producer", by, self._producers)

    def learn_session(self, session_id: int, by: str) -> None:
        if session_id not in self._sessions:
            self._sessions[session_id] = _next("session", by, self._sessions)

    def learn_broker(self, node_id: int, place: int, host: str, port: int) -> None:
        self._brokers[node_id] = place, host, port

    def producer(self, producer_id: int) -> str:
        return self._producers.get(producer_id, f"producer {producer_id}")

    def field(self, key: str, value: int) -> Plain:
        """Return a number of a response as it is recorded: an id as the name of its owner."""
        if key == "producer_id" and value >= 0:
            return self.producer(value)
        if key == "session_id" and value:
            return self._sessions[value]
        if key == "timestamp" and value >= _FIRST_REAL_TIME:
            return "<the time of day>"
        if key in _BROKER_IDS and value in self._brokers:
            return f"<broker {self._brokers[value][0]}>"
        return value

    def endpoint(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Replace host and port in a structure about a broker by a name, if they are that broker's."""
        _, host, port = self._brokers.get(fields["node_id"], (-1, None, None))
        is_right = (fields["host"], fields["port"]) == (host, port)
        return {**fields, "host": "<its host>", "port": "<its port>"} if is_right else fields

    def is_group(self, text: str) -> bool:
        """Return whether the text is the id of one of the play's groups."""
        return text == self._group or text.startswith(f"{self._group}-")

    def of(self, text: str) -> str:
        """Return a string of a response as it is recorded."""
        if text in self._names:
            return self._names[text]
        if text.startswith(f"{self._group}."):
            return f"<{text.removeprefix(f'{self._group}.')}>"
        if self.is_group(text):
            return f"<group{text.removeprefix(self._group).replace('-', ' ')}>"
        # A member whose join was held until the end: no connection received its id.
        return re.sub(f"^(.*)-{_UUID}$", r"<a member of \1>", text)


def _next(what: str, by: str, known: Mapping[int, str]) -> str:
    nth = sum(name.startswith(f"<{what} of {by}") for name in known.values()) + 1
    return f"<{what} of {by}>" if nth == 1 else f"<{what} of {by}, number {nth}>"


def plain(answer: Any, names: Names) -> Plain:
    """Return a response of kafka-python as it is recorded."""
    fields = answer.to_dict(json=False)
    if isinstance(answer, ListGroupsResponse):
        fields["groups"] = [group for group in fields["groups"] if names.is_group(group["group_id"])]
    return _plain(fields, names)


def _plain(value: Any, names: Names) -> Plain:
    if isinstance(value, Mapping):
        if value.keys() >= {"node_id", "host", "port"}:
            value = names.endpoint(value)
        if names.knows(value.get("topic_id")):
            # The right topic id is recorded like the topic's name.
            key = "topic" if "partitions" in value else "name"
            value = {key if name == "topic_id" else name: item for name, item in value.items()}
        return {key: _field(key, item, names) for key, item in value.items() if not _is_omitted(key, item)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _BYTES.get(bytes(value)) or repr(bytes(value))[2:-1]
    if isinstance(value, (list, tuple, set)):
        return _sorted([_plain(item, names) for item in value])
    if isinstance(value, str):
        return names.of(value)
    if isinstance(value, uuid.UUID):
        return names.of(str(value))
    return value


def _is_omitted(key: str, item: Any) -> bool:
    return key in _OMITTED or (key in _DEFAULTS and item == _DEFAULTS[key])


def _field(key: str, value: Any, names: Names) -> Plain:
    if key == "error_code":
        return error_name(value)
    if key in ("error_message", "batch_index_error_message") and value:
        return "<text>"
    if key == "records" and value is not None:
        return described(bytes(value), names.producer)
    if type(value) is int:
        return names.field(key, value)
    if key == "client_host" and isinstance(value, str):
        return re.sub(r"^/[\w.:]+$", "/<host>", value)  # the format of java.net.InetAddress
    return _plain(value, names)


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _sorted(items: list[Plain]) -> list[Plain]:
    def identity(item: Plain) -> tuple[list[Plain], str]:
        named = [item[key] for key in _IDENTITY if key in item] if isinstance(item, dict) else []
        return [str(name) for name in named], json.dumps(item, sort_keys=True)

    return sorted(items, key=identity)


ABSENT = "absent"


def compare(expected: Plain, actual: Plain) -> list[tuple[str, Plain, Plain]]:
    """Return the differences of two responses: (dotted path, expected, actual) of each field, ABSENT for a missing one.

    Elements of arrays are matched by their identity, so that a missing one does not shift the others. If one side has
    no response (such as "held"), the only difference is at the path "", with the error code of the other.
    """
    if not (isinstance(expected, dict) and isinstance(actual, dict)):
        expected, actual = _summary(expected), _summary(actual)
        return [] if expected == actual else [("", expected, actual)]
    wanted, found = _fields(expected), _fields(actual)
    return [
        (path, wanted.get(path, ABSENT), found.get(path, ABSENT))
        for path in dict.fromkeys([*wanted, *found])
        if wanted.get(path, ABSENT) != found.get(path, ABSENT)
    ]


def _summary(answer: Plain) -> Plain:
    return f"answered {answer.get('error_code', '')}".strip() if isinstance(answer, dict) else answer


def _fields(answer: Plain) -> dict[str, Plain]:
    found: dict[str, Plain] = {}
    _collect(answer, (), found)
    return found


def _collect(value: Plain, path: tuple[str, ...], found: dict[str, Plain]) -> None:
    children: list[tuple[str, Plain]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        children = [(_element_name(n, item), item) for n, item in enumerate(value)]
    if not children:
        found[".".join(path)] = value
    for name, child in children:
        _collect(child, (*path, name), found)


def _element_name(n: int, item: Plain) -> str:
    return next((str(item[key]) for key in _IDENTITY if key in item), str(n))
