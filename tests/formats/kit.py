"""A registry without a network or threads, for virtual time, and values of the formats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from sarameya.formats import lookups, message_decoder, record_encoder
from sarameya.registry.wire import header
from sarameya.testing import run_inline
from tests.registry.kit import SmallRegistry

URL = "http://small"

AVRO_ORDER = """{
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": null}
    ]
}"""

PROTO_ORDER = """
syntax = "proto3";
package shop;
message Other { string text = 1; message Deep { int64 id = 1; } }
message Order { int64 id = 1; string note = 2; }
"""


@contextmanager
def small_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallRegistry]:
    """Replace all registries by one in memory, and threads by calls on the event loop."""
    registry = SmallRegistry()
    for module in (message_decoder, record_encoder):
        monkeypatch.setattr(module, "Registry", registry.client)
    monkeypatch.setattr(lookups, "run_in_thread", run_inline)
    yield registry


def framed(schema_id: int, data: bytes, message: bytes = b"") -> bytes:
    """Return a record with its header; `message` has the indexes of a Protobuf message."""
    return header(schema_id) + message + data


def protobuf_class(name: str) -> type:
    """Return the class of a message of PROTO_ORDER, as protoc would generate it."""
    file = FileDescriptorProto(name="tests/order.proto", package="shop", syntax="proto3")
    other = file.message_type.add(name="Other")
    other.field.add(name="text", number=1, type=9, label=1)
    deep = other.nested_type.add(name="Deep")
    deep.field.add(name="id", number=1, type=3, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="note", number=2, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
