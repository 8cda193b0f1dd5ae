"""Compilation of a registry's Protobuf schemas by the protoc of grpcio-tools."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from sarameya import RegistryError, SchemaError
from sarameya.registry.protobuf_files import file_set, message_at
from sarameya.registry.schemas import Schema
from sarameya_handlers.spark.shaping.formats.protobuf_columns import message_class

MONEY = 'syntax = "proto3"; package base; message Money { int64 units = 1; }'
ORDER = """
syntax = "proto3";
package shop;
import "base/money.proto";
import "google/protobuf/timestamp.proto";
message Other { message Deep { message Deeper {} } }
message Order { base.Money price = 1; google.protobuf.Timestamp at = 2; message Line {} message More {} }
"""


def schema(text: str) -> Schema:
    return Schema(7, "PROTOBUF", text)


def files() -> FileDescriptorSet:
    return file_set(schema(ORDER), {"base/money.proto": schema(MONEY)})


def in_base64(file_set: FileDescriptorSet, name: str) -> Schema:
    (file,) = (file for file in file_set.file if file.name == name)
    return schema(base64.b64encode(file.SerializeToString()).decode())


def test_file_is_compiled_with_its_imports() -> None:
    made = files()
    assert [file.name for file in made.file][:-1] == ["base/money.proto", "google/protobuf/timestamp.proto"]
    order = message_class(made.SerializeToString(), "shop.Order")(price={"units": 5})
    assert order.price.units == 5


def test_base64_descriptor_is_used_as_is() -> None:
    compiled = files()
    top = in_base64(compiled, compiled.file[-1].name)
    made = file_set(top, {"base/money.proto": in_base64(compiled, "base/money.proto")})
    assert message_class(made.SerializeToString(), "shop.Order")(price={"units": 5}).price.units == 5


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ((0,), "shop.Other"),
        ((1,), "shop.Order"),
        ((1, 1), "shop.Order.More"),
        ((0, 0, 0), "shop.Other.Deep.Deeper"),
        ((2,), None),
        ((1, 2), None),
        ((1, 1, 0), None),
    ],
)
def test_message_is_found_by_its_index_path(path: tuple[int, ...], name: str | None) -> None:
    assert message_at(files().file[-1], path) == name


def test_message_without_a_package_has_a_plain_name() -> None:
    made = file_set(schema('syntax = "proto3"; message A { message B {} }'), {})
    assert [message_at(made.file[-1], path) for path in [(0,), (0, 0)]] == ["A", "A.B"]


def test_invalid_schema_is_refused_with_the_error_of_protoc() -> None:
    with pytest.raises(SchemaError, match=r"^Protobuf schema 7 cannot be compiled: sarameya_schema.proto:1:9: E"):
        file_set(schema("message {"), {})


def test_slow_compiler_is_a_passing_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sarameya.registry.protobuf_files._PROTOC_SECONDS", 0.001)
    with pytest.raises(RegistryError, match="did not compile Protobuf schema 7 within") as raised:
        file_set(schema(ORDER), {"base/money.proto": schema(MONEY)})
    assert raised.value.retriable


def test_import_missing_from_the_references_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"cannot be compiled: base/money.proto: File not found"):
        file_set(schema(ORDER), {})
    compiled = files()
    with pytest.raises(SchemaError, match=r"imports 'base/money.proto', which is not among its references"):
        file_set(in_base64(compiled, compiled.file[-1].name), {})


@pytest.mark.parametrize("name", ["../up.proto", "/etc/up.proto", "a/../../up.proto"])
def test_reference_cannot_escape_the_directory(name: str) -> None:
    with pytest.raises(SchemaError, match="refers to a file with the name"):
        file_set(schema(ORDER), {name: schema(MONEY)})
