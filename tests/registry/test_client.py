"""Requests to a registry and the use of each response, without a network. Only `sleep` moves the clock."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sarameya import RegistryError, RegistryRefusedError, SchemaError, UnknownSubjectError
from sarameya.registry.client import FORGOTTEN_AFTER, LOOK_AGAIN_AFTER, MOST_REMEMBERED, MOST_UNKNOWN, TRIES, Registry
from sarameya.registry.http import Answer
from sarameya.registry.options import RegistryOptions
from sarameya.registry.schemas import Reference, Schema

UNKNOWN = Answer(404, b'{"error_code": 40403, "message": "Schema not found"}')


def schema(**fields: Any) -> Answer:
    return Answer(200, json.dumps({"schema": '"long"', **fields}).encode())


class Network:
    """A fake network with responses by path. The last response of a path is repeated. An Exception is raised."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer | Exception]] = {}
        self.requested: list[str] = []
        self.bodies: list[bytes | None] = []
        self.now = 0.0
        self.on_check: Callable[[], None] = lambda: None

    def respond(self, path: str, *answers: Answer | Exception) -> None:
        self.answers[path] = list(answers)

    def request(self, url: str, body: bytes | None) -> Answer:
        self.requested.append(url)
        self.bodies.append(body)
        answers = self.answers[url.partition("://")[2].partition("/")[2]]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def registry(self, *urls: str) -> Registry:
        options = RegistryOptions(url=list(urls) or "http://r")
        return Registry(
            options, check=lambda: self.on_check(), sleep=self.sleep, clock=lambda: self.now, request=self.request
        )


@pytest.fixture
def network() -> Network:
    return Network()


def test_schema_is_requested_once(network: Network) -> None:
    network.respond("schemas/ids/7", schema(schemaType="JSON"))
    registry = network.registry("http://r/")
    for _ in range(3):
        assert registry.schemas([7, 7]) == {7: Schema(7, "JSON", '"long"')}
    assert network.requested == ["http://r/schemas/ids/7"]


def test_schema_without_a_kind_is_avro(network: Network) -> None:
    network.respond("schemas/ids/7", schema())
    assert network.registry().schemas([7])[7].kind == "AVRO"


def test_unknown_id_is_requested_twice_and_then_remembered(network: Network) -> None:
    network.respond("schemas/ids/7", UNKNOWN)
    registry = network.registry()
    assert registry.schemas([7]) == {}
    assert (len(network.requested), network.now) == (2, LOOK_AGAIN_AFTER)
    assert registry.schemas([7]) == {}
    assert len(network.requested) == 2


class Empty(dict[str, list[Answer | Exception]]):
    """Responses of a registry that knows only the ids with a response of their own."""

    def __missing__(self, path: str) -> list[Answer | Exception]:
        return [UNKNOWN]


def test_fault_58_unknown_ids_cause_a_bounded_number_of_requests(network: Network) -> None:
    network.answers = Empty()
    network.respond("schemas/ids/3", schema())
    registry = network.registry()
    assert list(registry.schemas(range(250_000))) == [3]
    assert len(network.requested) == 2 * MOST_UNKNOWN + 1
    assert registry.is_unknown(5)
    assert not registry.is_unknown(249_999)
    for _ in range(3):  # the batch is retried
        registry.schemas(range(250_000))
    assert len(network.requested) == 2 * MOST_UNKNOWN + 1


def test_fault_58_unknown_ids_are_bounded_in_memory(network: Network) -> None:
    network.answers = Empty()
    registry = network.registry()
    for batch in range(30):
        registry.schemas(range(batch * 5_000, (batch + 1) * 5_000))
    assert len(network.requested) == 2 * 30 * MOST_UNKNOWN
    assert sum(map(registry.is_unknown, range(200_000))) == MOST_REMEMBERED
    assert registry.is_unknown(29 * 5_000)


def test_id_among_many_unknown_ids_is_found_later(network: Network) -> None:
    """A batch with so many unknown ids never lands, not even in part. A later batch with only one of them must land."""
    network.answers = Empty()
    network.respond("schemas/ids/7", UNKNOWN, schema())
    registry = network.registry()
    registry.schemas(range(250_000))
    assert sorted(registry.schemas([7])) == [7]


def test_id_registered_a_moment_later_is_found(network: Network) -> None:
    network.respond("schemas/ids/7", UNKNOWN, schema())
    network.respond("schemas/ids/8", schema())
    assert sorted(network.registry().schemas([7, 8])) == [7, 8]


def test_unknown_id_is_requested_again_after_a_minute(network: Network) -> None:
    network.respond("schemas/ids/7", UNKNOWN, UNKNOWN, schema())
    registry = network.registry()
    assert registry.schemas([7]) == {}
    network.now += FORGOTTEN_AFTER
    assert sorted(registry.schemas([7])) == [7]


@pytest.mark.parametrize(
    "failure",
    [RegistryError("http://r does not answer: refused"), Answer(503, b"down"), Answer(429, b""), Answer(500, b"")],
)
def test_passing_failure_is_retried(network: Network, failure: Any) -> None:
    network.respond("schemas/ids/7", failure, failure, schema())
    assert sorted(network.registry().schemas([7])) == [7]


def test_silent_registry_is_a_passing_error(network: Network) -> None:
    network.respond("schemas/ids/7", Answer(503, b"down\nfor ever"))
    with pytest.raises(RegistryError, match="http://r/schemas/ids/7 answers with status 503: down for ever") as raised:
        network.registry().schemas([7])
    assert raised.value.retriable
    assert len(network.requested) == TRIES


def test_second_node_is_requested_if_the_first_does_not_respond(network: Network) -> None:
    network.respond("schemas/ids/7", RegistryError("one does not answer"), schema())
    assert sorted(network.registry("http://one", "http://two").schemas([7])) == [7]
    assert (network.requested, network.now) == (["http://one/schemas/ids/7", "http://two/schemas/ids/7"], 0.0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(404, b"<html>"), "status 404: <html>: is this the registry's base URL"),
        (Answer(404, b'{"error_code": 404}'), "is this the registry's base URL"),
        (Answer(302, b""), "status 302: is this the registry"),
        (Answer(200, b"<html>login</html>"), "answers with no schema .*: is it a schema registry"),
        (Answer(200, b'{"schema": 5}'), "answers with no schema"),
    ],
)
def test_unrelated_response_does_not_make_an_id_unknown(network: Network, answer: Answer, message: str) -> None:
    network.respond("schemas/ids/7", answer)
    with pytest.raises(RegistryError, match=message) as raised:
        network.registry().schemas([7])
    assert raised.value.retriable


@pytest.mark.parametrize("status", [401, 403])
def test_refused_credentials_are_permanent(network: Network, status: int) -> None:
    network.respond("schemas/ids/7", Answer(status, b'{"error_code": 40301}'))
    match = f"refuses the request .status {status}.: check username, password or token"
    with pytest.raises(RegistryRefusedError, match=match) as raised:
        network.registry().schemas([7])
    assert raised.value.permanent
    assert not raised.value.retriable


def test_latest_version_is_requested_each_time(network: Network) -> None:
    network.respond("subjects/a%2Fb/versions/latest", schema(id=1), schema(id=2))
    network.respond("subjects/a%2Fb/versions/2", schema(id=2))
    registry = network.registry()
    assert [registry.version("a/b").id for _ in range(2)] == [1, 2]
    assert [registry.version("a/b", 2).id for _ in range(2)] == [2, 2]
    assert len(network.requested) == 3
    registry.schemas([1, 2])
    assert len(network.requested) == 3


@pytest.mark.parametrize("code", [40401, 40402])
def test_unknown_subject_or_version_is_permanent(network: Network, code: int) -> None:
    network.respond("subjects/o/versions/3", Answer(404, b'{"error_code": %d}' % code))
    with pytest.raises(UnknownSubjectError, match="there is no version 3 of subject 'o'; register it, or") as raised:
        network.registry().version("o", 3)
    assert not raised.value.retriable


@pytest.mark.parametrize(("register", "path"), [(False, "subjects/a%2Fb"), (True, "subjects/a%2Fb/versions")])
def test_schema_is_found_by_its_text(network: Network, register: bool, path: str) -> None:
    network.respond(path, Answer(200, b'{"id": 7, "version": 2}'))
    found = network.registry().registered("a/b", "JSON", "{}", register=register)
    assert found == Schema(7, "JSON", "{}")
    assert network.bodies == [b'{"schema":"{}","schemaType":"JSON"}']


def test_kind_of_an_avro_schema_is_not_sent(network: Network) -> None:
    network.respond("subjects/o", Answer(200, b'{"id": 7}'))
    network.registry().registered("o", "AVRO", '"long"')
    assert network.bodies == [b'{"schema":"\\"long\\""}']


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (Answer(404, b'{"error_code": 40401}'), UnknownSubjectError, "for subject 'o'; register it, or set"),
        (Answer(404, b'{"error_code": 40403}'), UnknownSubjectError, "for subject 'o'; register it, or set"),
        (Answer(409, b'{"message": "incompatible"}'), SchemaError, "status 409: .*incompatible"),
        (Answer(422, b"bad"), SchemaError, "status 422: bad"),
        (Answer(403, b""), RegistryRefusedError, "refuses the request"),
        (Answer(404, b"<html>"), RegistryError, "is this the registry's base URL"),
        (Answer(200, b"{}"), RegistryError, "no schema id"),
    ],
)
def test_schema_not_found_by_its_text_raises(
    network: Network, answer: Answer, kind: type[Exception], message: str
) -> None:
    network.respond("subjects/o", answer)
    with pytest.raises(kind, match=message) as raised:
        network.registry().registered("o", "AVRO", '"long"')
    assert type(raised.value) is kind


def test_references_are_ordered_by_dependency(network: Network) -> None:
    def refers(*names: str) -> list[dict[str, object]]:
        return [{"name": name, "subject": name, "version": 1} for name in names]

    network.respond("subjects/a/versions/1", schema(id=1, references=refers("b", "c")))
    network.respond("subjects/b/versions/1", schema(id=2, references=refers("c")))
    network.respond("subjects/c/versions/1", schema(id=3))
    top = Schema(9, "AVRO", "{}", (Reference("a", "a", 1), Reference("c", "c", 1)))
    assert [(name, found.id) for name, found in network.registry().referred(top).items()] == [
        ("c", 3),
        ("b", 2),
        ("a", 1),
    ]


def test_cancelled_lookup_stops_waiting(network: Network) -> None:
    class Cancelled(BaseException):
        pass

    def check() -> None:
        if network.now:
            raise Cancelled

    network.on_check = check
    network.respond("schemas/ids/7", UNKNOWN)
    with pytest.raises(Cancelled):
        network.registry().schemas([7])
    assert (len(network.requested), network.now < LOOK_AGAIN_AFTER) == (1, True)


def test_repr_of_a_registry_shows_its_url_and_no_secret() -> None:
    options = RegistryOptions(url="https://r", username="me", password="hidden")
    assert repr(Registry(options)) == "Registry(https://r)"
    assert "hidden" not in repr(options)
