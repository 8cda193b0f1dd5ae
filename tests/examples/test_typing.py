"""Type checks of users' code: the examples pass a strict check, and so does the code on the pages and in docstrings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

import sarameya
import sarameya_handlers
from tests.docs.docstrings import examples, is_python
from tests.docs.pages import PAGES, blocks

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.integration

STRICT = ["--strict"]
# Handlers on the pages mostly have no annotations, for readability. Their calls are checked nevertheless.
BODIES = ["--check-untyped-defs", "--warn-unreachable", "--strict-equality", "--disable-error-code=import-untyped"]


def type_errors(*arguments: str | Path) -> str:
    """Return the output of mypy with its default settings."""
    paths = [ROOT / "runtime", ROOT / "handlers", EXAMPLES / "testing"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent", "--explicit-package-bases"),
            *("--python-version=3.11", f"--cache-dir={ROOT / 'build' / 'mypy-users'}", *arguments),
        ],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.stderr, done.returncode in (0, 1)) == ("", True)
    return "" if done.returncode == 0 else done.stdout


@pytest.mark.parametrize("package", [sarameya, sarameya_handlers])
def test_package_has_a_py_typed_file(package: object) -> None:
    assert (Path(package.__file__).parent / "py.typed").exists()  # type: ignore[attr-defined]


def test_examples_pass_the_strict_check() -> None:
    assert type_errors(*STRICT, *EXAMPLES.glob("*.py"), *(EXAMPLES / "testing").glob("*.py")) == ""
    assert type_errors(*STRICT, *(EXAMPLES / "orders").glob("*.py")) == ""
    # The only example that calls another library without types.
    assert type_errors(*STRICT, "--disable-error-code=import-untyped", "-p", "examples.flights") == ""


# Names that the programs of a page take from their surrounding program.
ON_PAGES = {
    "docs/message-handlers": """\
from typing import Any
import trio
Service: Any
Refuses: Any
table: Any
connection: Any
work: Any
""",
    "docs/asyncio": """\
from typing import Any
Service: Any
BOOTSTRAP_SERVERS: list[str]
SERVICE: str
write: Any
""",
}


def test_code_of_the_pages_passes_the_type_check(tmp_path: Path) -> None:
    files = []
    for page, text in PAGES.items():
        # The programs of the worked example are files, checked above.
        if page != "docs/worked-example" and (found := blocks(text, "python")):
            files.append(tmp_path / f"{re.sub('[^a-z]', '_', page.lower())}.py")
            right = [block for block in found if not re.search("^# WRONG|^from faststream", block, re.MULTILINE)]
            files[-1].write_text("\n\n".join([ON_PAGES.get(page, ""), *right]), encoding="utf-8")
    assert len(files) > 8
    assert type_errors(*BODIES, *files) == ""


IN_DOCSTRINGS = """\
from collections.abc import Sequence
from typing import Any

import trio

from sarameya import *
from sarameya.testing import *
from sarameya_handlers import *


class Orders(ConsumerGroupHandler):
    total = 0

    async def consume_claim(self, session, claim): ...


# Names that an example takes from its surrounding program.
self: Any
session: Session
claim: Claim
client: Any
URL: str
cluster: EmbeddedCluster
group: ConsumerGroup
parse: Any
database: Any
ledger: Any
add_up: Any
ship: Any


class Order:
    number: int
"""


def test_code_of_the_docstrings_passes_the_type_check(tmp_path: Path) -> None:
    bodies = [text for texts in examples().values() for text in texts if is_python(text)]
    functions = [f"async def example_{n}():\n{indent(body, '    ')}" for n, body in enumerate(bodies)]
    assert len(functions) > 8
    program = tmp_path / "docstrings.py"
    program.write_text("\n\n".join([IN_DOCSTRINGS, *functions]), encoding="utf-8")
    assert type_errors(*BODIES, program) == ""
    # A wrong argument in an example is found.
    wrong = tmp_path / "wrong_docstrings.py"
    wrong.write_text(program.read_text().replace("max_age=10.0", 'max_age="10"'), encoding="utf-8")
    assert 'Argument "max_age" to "SparkSink" has incompatible type "str"' in type_errors(*BODIES, wrong)


def test_wrong_argument_is_a_type_error(tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text('from sarameya import Config, ConsumerGroup\n\nConsumerGroup(["a:1"], 7, Config())\n')
    assert 'Argument 2 to "ConsumerGroup" has incompatible type "int"; expected "str"' in type_errors(*STRICT, program)


TYPED_MESSAGES = """\
from typing import assert_type

import msgspec

from sarameya import Message, MessageHandler, Producer, ProducerRecord


class Order(msgspec.Struct):
    price: int


async def send(servers: str) -> None:
    async with Producer[Order, str](servers, value_format="json", key_format="string") as typed:
        await typed.send("orders", Order(7), key="key")
        await typed.send("orders", None)
        await typed.send_many([ProducerRecord("orders", Order(7)), ProducerRecord("orders", Order(8), "key")])
        await typed.send_many(ProducerRecord("orders", Order(price)) for price in range(2))
    async with Producer(servers) as producer:
        await producer.send("orders", b"value", key=b"key")
        await producer.send_many([ProducerRecord("orders", b"value", b"key"), ProducerRecord("orders", None)])


class Orders(MessageHandler[Order]):
    async def handle(self, message: Message[Order]) -> None:
        assert_type(message.value, Order)
        assert_type(message.key, bytes | None)
        assert_type(message.replace(offset=1).value, Order)


class Accounts(MessageHandler[Order | None, str]):
    def handle(self, message: Message[Order | None, str]) -> None:
        assert_type(message.value, Order | None)
        assert_type(message.key, str)


class Raw(MessageHandler):
    async def handle(self, message: Message) -> None:
        assert_type(message.value, bytes | None)
"""


def test_types_of_messages_are_inferred(tmp_path: Path) -> None:
    program = tmp_path / "typed.py"
    program.write_text(TYPED_MESSAGES)
    assert type_errors(*STRICT, program) == ""
    program = tmp_path / "wrongly_sent.py"
    program.write_text(TYPED_MESSAGES.replace("Order(7), key", "7, key").replace('b"value", key', '"value", key'))
    found = type_errors(*STRICT, program)
    assert 'Argument 2 to "send" of "Producer" has incompatible type "int"; expected "Order | None"' in found
    assert 'Argument 2 to "send" of "Producer" has incompatible type "str"; expected "bytes | None"' in found
    program = tmp_path / "wrongly_typed.py"
    program.write_text(TYPED_MESSAGES.replace("message: Message[Order]", "message: Message[int]"))
    assert 'supertype defines the argument type as "Message[Order, bytes | None]"' in type_errors(*STRICT, program)
