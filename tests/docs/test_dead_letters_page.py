"""Output in docs/dead-letters.md equals that of `sarameya letters` with the arguments on the page."""

from __future__ import annotations

import shlex
from typing import Any

from trio.testing import MockClock

from sarameya.embedded import EmbeddedCluster
from sarameya.service.cli.program import build_parser
from sarameya.service.groups.arguments import moment
from sarameya.service.letters import command, results
from sarameya.service.letters.redrive import redrive
from sarameya.testing import memory_cluster
from tests.docs.pages import blocks, page
from tests.service.letters.kit import DEAD, clients_of, failure_headers

LIST, SHOW, REDRIVE = blocks(page("dead-letters"), "")


def write(cluster: EmbeddedCluster) -> None:
    for minute, partition in enumerate((0, 1, 3, 0, 2)):
        if partition == 2:
            error, kind, key, value = "no customer 17", "ValueError", b"17", b'{"customer": 17, "total": 250}'
        else:
            error, kind, key, value = f"no answer in {minute + 3} s", "TimeoutError", b"k", b"{}"
        headers = dict(failure_headers(partition=partition, offset=100 + minute, error=error))
        headers["__sarameya.errors.exception.class"] = f"builtins.{kind}".encode()
        headers["__sarameya.errors.timestamp"] = str(moment("2026-01-31T11:59:59Z")).encode()
        at = moment(f"2026-01-31T12:0{minute}:00Z")
        cluster.produce(DEAD, 0, value, key, tuple(headers.items()), at)


def arguments(block: str) -> Any:
    """Return the parsed arguments of the command in a block's first line."""
    words = shlex.split(block.splitlines()[0].removeprefix("$ sarameya "))
    return build_parser(words).parse_args(words)


def output(block: str) -> str:
    return block.split("\n", 1)[1]


async def test_list_equals_the_output(autojump_clock: MockClock) -> None:
    args = arguments(LIST)
    async with memory_cluster({DEAD: 1, "orders": 4}) as cluster:
        write(cluster)
        result = await results.list_letters(clients_of(cluster), command._selection(args))
    assert result.text + "\n" == output(LIST)


async def test_show_equals_the_output(autojump_clock: MockClock) -> None:
    args, texts = arguments(SHOW), list[str]()
    async with memory_cluster({DEAD: 1, "orders": 4}) as cluster:
        write(cluster)
        await results.show(clients_of(cluster), command._selection(args), lambda text: not texts.append(text))
    assert "".join(texts) == output(SHOW)


async def test_redrive_equals_the_output(autojump_clock: MockClock) -> None:
    args = arguments(REDRIVE)
    async with memory_cluster({DEAD: 1, "orders": 4}) as cluster:
        write(cluster)
        result = await redrive(clients_of(cluster), command._selection(args), command._redrive_options(args))
    assert result.text + "\n" == output(REDRIVE)
