"""Schemas of framed records, and unreadable records, with a registry in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sarameya import RegistryError
from sarameya.registry.client import Registry
from sarameya.registry.wire import Prefix
from sarameya_handlers.spark.shaping.errors import ShapeError
from sarameya_handlers.spark.shaping.formats.framing import ReaderSchemas, header, writer_schemas
from tests.registry.kit import SmallRegistry

LATEST = "/subjects/s/versions/latest"


@pytest.fixture
def small() -> Iterator[SmallRegistry]:
    with SmallRegistry() as registry:
        yield registry


def test_unknown_and_foreign_schemas_are_reported(small: SmallRegistry) -> None:
    avro, other = small.register("s", '"long"'), small.register("j", "{}", "JSON")
    registry = Registry(small.options, sleep=lambda _: None, clock=iter(range(0, 10_000, 5)).__next__)
    prefixes = {header(number): Prefix(number, None) for number in (avro, other, 99)}
    found = writer_schemas(registry, prefixes, "AVRO")
    assert found.by_id == {avro: registry.schemas([avro])[avro]}
    assert list(found.schemas) == [header(avro)]
    assert found.problems == {
        header(other): f"its schema {other} is JSON, not AVRO",
        header(99): f"its schema 99 is unknown to Registry({small.url})",
    }


def test_latest_schema_is_requested_again_for_new_ids_only(small: SmallRegistry) -> None:
    one = small.register("s", '"int"')
    readers = ReaderSchemas(Registry(small.options), "AVRO")
    assert [readers.schema("s", ids).id for ids in ([one], [], [one])] == [one] * 3
    assert small.requests.count(LATEST) == 1
    two = small.register("s", '"long"')
    assert readers.schema("s", [one]).id == one
    assert readers.schema("s", [one, two]).id == two
    assert readers.schema("s", [one]).id == two
    assert small.requests.count(LATEST) == 2


def test_latest_schema_is_known_without_records_of_it(small: SmallRegistry) -> None:
    one, two = small.register("s", '"int"'), small.register("s", '"long"')
    readers = ReaderSchemas(Registry(small.options), "AVRO")
    assert [readers.schema("s", ids).id for ids in ([one], [two])] == [two, two]
    assert small.requests.count(LATEST) == 1


def test_foreign_id_is_not_requested_every_time(small: SmallRegistry) -> None:
    one, foreign = small.register("s", '"int"'), small.register("other", '"float"')
    readers = ReaderSchemas(Registry(small.options), "AVRO")
    for _ in range(3):
        assert readers.schema("s", [one, foreign]).id == one
    assert small.requests.count(LATEST) == 1


def test_pinned_version_is_requested_once(small: SmallRegistry) -> None:
    one, two = small.register("s", '"int"'), small.register("s", '"long"')
    readers = ReaderSchemas(Registry(small.options), "AVRO", version=1)
    assert [readers.schema("s", ids).id for ids in ([one], [two], [one, two])] == [one] * 3
    assert small.requests == ["/subjects/s/versions/1"]


def test_subject_of_another_format_is_refused(small: SmallRegistry) -> None:
    small.register("s", "{}", "JSON")
    with pytest.raises(ShapeError, match="the schema of subject 's' is JSON, not AVRO: name another subject"):
        ReaderSchemas(Registry(small.options), "AVRO").schema("s", [])


def test_failed_registry_request_is_repeated_by_the_next_batch(small: SmallRegistry) -> None:
    one = small.register("s", '"int"')
    registry = Registry(small.options, sleep=lambda _: None, clock=iter(range(0, 10_000, 5)).__next__)
    readers = ReaderSchemas(registry, "AVRO")
    assert readers.schema("s", [one]).id == one
    two = small.register("s", '"long"')
    small.fault = lambda _: (503, b"")
    with pytest.raises(RegistryError, match="503"):
        readers.schema("s", [two])
    small.fault = None
    assert readers.schema("s", [two]).id == two
