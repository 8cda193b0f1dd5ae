"""Descriptor sets of a registry's Protobuf schemas, and the message to which a record's prefix refers. Blocking.

A registry stores what a serializer registered: usually the `.proto` file, which protoc compiles, sometimes its
descriptor in base64. Files that come with Protobuf (google/protobuf/*.proto) are never registered.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sarameya.errors import RegistryError, SchemaError
from sarameya.extras import install_command
from sarameya.registry.schemas import Schema

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

_PROTOC_SECONDS = 60
_SCHEMA_FILE = "sarameya_schema.proto"
"""Name of the file that protoc compiles. The files that it imports keep the names of their references."""
_BUNDLED_FOLDER = "google/protobuf/"
"""Folder of the files that come with Protobuf."""
_NO_ERROR = re.compile(r"^WARNING: |^[WI]\d{4} |: warning: ")
"""Lines of protoc's output that are warnings or information, not errors."""


WorkDirectory = Callable[[], AbstractContextManager[str | Path]]
"""Makes a directory that exists for a block."""


def file_set(
    schema: Schema, referred: Mapping[str, Schema], work_directory: WorkDirectory = TemporaryDirectory
) -> FileDescriptorSet:
    """Return the files that the schema imports, and its own file last.

    Args:
        schema: The schema.
        referred: Schemas that it refers to, by their names in the references.
        work_directory: Makes the directory in which protoc works.

    Raises:
        SchemaError: The schema, or one that it refers to, is invalid, or protoc is missing.
        RegistryError: protoc did not end in time.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    descriptor = _decode_descriptor(schema)
    if descriptor is None:
        return _compile(schema, {name: other.text for name, other in referred.items()}, work_directory)
    files = {}
    for name, other in referred.items():
        file = _decode_descriptor(other)
        if file is None:
            raise SchemaError(f"Protobuf schema {schema.id} is a descriptor, but {name!r}, which it imports, is not")
        file.name = name
        files[name] = file
    found = FileDescriptorSet()
    _collect(descriptor, files, found, schema)
    return found


def message_at(file: FileDescriptorProto, path: Iterable[int]) -> str | None:
    """Return the full name of the message at this index path; None if there is none."""
    name = str(file.package)
    messages: Iterable[DescriptorProto] = file.message_type
    for index in path:
        siblings = list(messages)
        if index >= len(siblings):
            return None
        name = f"{name}.{siblings[index].name}" if name else str(siblings[index].name)
        messages = siblings[index].nested_type
    return name


def path_of(file: FileDescriptorProto, name: str) -> tuple[int, ...] | None:
    """Return the index path of the message with this full name; None if there is none."""
    return _path_of(file.message_type, f"{file.package}." if file.package else "", name)


def _path_of(messages: Iterable[DescriptorProto], prefix: str, name: str) -> tuple[int, ...] | None:
    for index, message in enumerate(messages):
        own = f"{prefix}{message.name}"
        if own == name:
            return (index,)
        if name.startswith(f"{own}.") and (path := _path_of(message.nested_type, f"{own}.", name)) is not None:
            return (index, *path)
    return None


def _decode_descriptor(schema: Schema) -> FileDescriptorProto | None:
    """Decode the text as a base64 descriptor; None if it is a .proto file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _collect(
    file: FileDescriptorProto, files: Mapping[str, FileDescriptorProto], found: FileDescriptorSet, schema: Schema
) -> None:
    """Append a file to `found`, after all files that it imports."""
    for name in file.dependency:
        if name in (collected.name for collected in found.file):
            continue
        needed = files.get(name) or _bundled(name)
        if needed is None:
            raise SchemaError(f"Protobuf schema {schema.id} imports {name!r}, which is not among its references")
        _collect(needed, files, found, schema)
    found.file.append(file)


def _bundled(name: str) -> FileDescriptorProto | None:
    """Return the file of this name that comes with Protobuf; None if there is none."""
    from google.protobuf import descriptor_pool
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if not name.startswith(_BUNDLED_FOLDER):
        return None
    try:
        importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    except ImportError:
        return None
    file = FileDescriptorProto()
    descriptor_pool.Default().FindFileByName(name).CopyToProto(file)
    return file


def _compile(schema: Schema, others: Mapping[str, str], work_directory: WorkDirectory) -> FileDescriptorSet:
    """Compile the schema with protoc, in a temporary directory."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    with work_directory() as directory:
        root = Path(directory)
        for name, text in {**others, _SCHEMA_FILE: schema.text}.items():
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts or "\0" in name:
                raise SchemaError(f"Protobuf schema {schema.id} refers to a file with the name {name!r}")
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        output = root / "made.desc"
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", "--include_imports"]
        try:
            protoc = subprocess.run(
                [*command, f"--descriptor_set_out={output}", _SCHEMA_FILE],
                capture_output=True,
                text=True,
                timeout=_PROTOC_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RegistryError(
                f"protoc did not compile Protobuf schema {schema.id} within {_PROTOC_SECONDS} s: is the machine busy?"
            ) from None
        if protoc.returncode != 0:
            lines = [line.replace(f"{root}/", "") for line in protoc.stderr.splitlines() if not _NO_ERROR.search(line)]
            text = "; ".join(lines)
            if "No module named" in text:
                text = f"protoc is missing: {install_command('protobuf')}"
            raise SchemaError(f"Protobuf schema {schema.id} cannot be compiled: {text[:1000]}")
        return FileDescriptorSet.FromString(output.read_bytes())
