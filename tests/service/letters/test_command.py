"""Output and exit codes of `sarameya letters ...`, called in this process, over TCP."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from sarameya.protocol.versions import Api
from sarameya.service.cli.program import whole_parser
from sarameya.service.letters.command import _offsets
from sarameya.service.letters.redrive import CHUNK_LETTERS
from tests.service.kit import Outcome, called
from tests.service.letters.kit import DEAD, failure_headers, sent, write


async def letters(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], command: str, *argv: str) -> Outcome:
    here = ["--bootstrap-servers", ",".join(cluster.bootstrap_servers)]
    return await called(capsys, "letters", command, DEAD, *argv, *here)


async def test_letters_are_listed_shown_and_redriven(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, b"a", b"b", error="no customer 7")
        write(cluster, b"c", error="timed out")
        listed = await letters(cluster, capsys, "list")
        assert (listed.code, listed.err) == (0, "")
        assert listed.out.splitlines()[0].startswith("LETTERS  TOPIC   PARTITIONS  GROUP    FIRST")
        assert listed.out.splitlines()[1].endswith("  builtins.ValueError  no customer #")
        assert listed.out.splitlines()[-1] == "3 letters"

        shown = await letters(cluster, capsys, "show", "--error-text", "customer #", "--limit", "1", "--stack")
        assert (shown.code, shown.err) == (0, "")
        assert shown.out.splitlines()[0].startswith(f"{DEAD}-0 offset 0, ")
        assert shown.out.splitlines()[-1] == "    ValueError: bad value"
        lines = (await letters(cluster, capsys, "show", "--json")).out.splitlines()
        assert [json.loads(line)["value"] for line in lines] == ["a", "b", "c"]

        redrive = ["--error-class", "ValueError", "--error-text", "timed"]
        dry = await letters(cluster, capsys, "redrive", *redrive)
        assert (dry.code, dry.out.splitlines()[-1]) == (0, "Nothing is sent yet: add --execute to do it.")
        assert sent(cluster) == []
        done = await letters(cluster, capsys, "redrive", *redrive, "--execute")
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines()[3] == f"1 letter of topic '{DEAD}' sent"
        assert sent(cluster) == [b"c"]
        pending = await letters(cluster, capsys, "list", "--pending", "--json")
        assert (pending.document["letters"], pending.document["topic"]) == (2, DEAD)
        rest = await letters(cluster, capsys, "redrive", "--execute", "--json")
        assert (rest.document["letters"], rest.document["executed"]) == (2, True)
        assert sent(cluster) == [b"c", b"a", b"b"]


async def test_refused_letters_are_reported_beside_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster({DEAD: 1, "orders": 1}) as cluster:
        write(cluster, b"a", headers=failure_headers(redriven=3))
        write(cluster, b"b")
        outcome = await letters(cluster, capsys, "redrive", "--execute")
        assert (outcome.code, sent(cluster)) == (2, [b"b"])
        assert outcome.out.splitlines()[-1] == f"1 letter of topic '{DEAD}' sent"
        (line,) = outcome.err.splitlines()
        assert line.startswith(f"sarameya: error: 1 letter not sent, the first at {DEAD}-0 offset 0: redriven 3 times")


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["redrive", "--to", DEAD], 2, "is the topic of the letters: name another one by --to"),
        (["redrive", "--to", "gone"], 1, "topic 'gone': UNKNOWN_TOPIC_OR_PARTITION (3)"),
        (["redrive", "--to", "a", "--to-retry-topic", "b"], 2, "not allowed with argument --to"),
        (["redrive", "--max-redrives", "0"], 2, "'0' must be a whole number of at least 1"),
        (["redrive", "--group", ""], 2, "'' must be"),
        (["show", "--limit", "x"], 2, "'x' must be a whole number of at least 1"),
        (["show", "--offsets", "4-3"], 2, "the first offset is after the last one"),
        (["list", "--since", "yesterday"], 2, "'yesterday' must be a date and time of ISO 8601"),
        (["list", "--since", "Px"], 2, "'Px' must be a duration of ISO 8601"),
        (["show", "--group", "g"], 2, "--group has no effect without --pending"),
        (["list", "--group", "g"], 2, "--group has no effect without --pending"),
        (["list", "--origin", "a:b"], 2, "'a:b' must be TOPIC or TOPIC:PARTITIONS"),
    ],
)
async def test_wrong_arguments_print_one_line_with_the_remedy(
    argv: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedCluster({DEAD: 1}) as cluster:
        outcome = await letters(cluster, capsys, *argv)
        assert (outcome.code, outcome.out) == (code, "")
        (line,) = outcome.err.splitlines()
        assert text in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [("17", (17, 17)), ("17-20", (17, 20)), ("17-", (17, None)), ("-20", (0, 20)), ("0", (0, 0)), ("5-5", (5, 5))],
)
def test_offsets_are_one_offset_or_a_range(text: str, expected: tuple[int, int | None]) -> None:
    assert _offsets(text) == expected
    args = whole_parser().parse_args(["letters", "show", DEAD, "--offsets", text])
    assert args.offsets == expected


@pytest.mark.parametrize("text", ["", "-", "a", "1-b", "1--2", "1 2", "1" * 20])
def test_offsets_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="must be an offset or a range"):
        _offsets(text)


def process_of(cluster: EmbeddedCluster, *argv: str) -> subprocess.Popen[Any]:
    command = [sys.executable, "-m", "sarameya.service", "letters", *argv]
    return subprocess.Popen(
        [*command, "--bootstrap", ",".join(cluster.bootstrap_servers)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
async def test_interrupted_redrive_can_be_repeated(capsys: pytest.CaptureFixture[str], signum: signal.Signals) -> None:
    """The brokers hold the second chunk's response when the signal comes."""
    async with EmbeddedCluster({DEAD: 1, "orders": 1}) as cluster:
        values = [b"%d" % number for number in range(3 * CHUNK_LETTERS)]
        write(cluster, *values)
        cluster.delay_next(Api.PRODUCE, 0.0)
        cluster.delay_next(Api.PRODUCE, 3600.0, None)
        process = process_of(cluster, "redrive", DEAD, "--execute")
        try:
            with trio.fail_after(60):
                while len(sent(cluster)) < 2 * CHUNK_LETTERS:
                    await trio.sleep(0.05)
            process.send_signal(signum)
            code = await trio.to_thread.run_sync(process.wait, 60)
        finally:
            process.kill()
            process.communicate()
        assert code == (130 if signum == signal.SIGINT else -signal.SIGKILL)
        cluster.clear_faults()
        again = await letters(cluster, capsys, "redrive", "--execute", "--json")
        assert (again.code, again.document["done_offsets"]) == (0, CHUNK_LETTERS)
        assert sent(cluster) == values[: 2 * CHUNK_LETTERS] + values[CHUNK_LETTERS:]


async def test_output_closed_by_its_reader_ends_the_command() -> None:
    async with EmbeddedCluster({DEAD: 1}) as cluster:
        write(cluster, *[bytes(100)] * 5000)
        process = process_of(cluster, "show", DEAD)
        assert process.stdout is not None
        try:
            first = await trio.to_thread.run_sync(os.read, process.stdout.fileno(), 10)
            process.stdout.close()
            code = await trio.to_thread.run_sync(process.wait, 60)
        finally:
            process.kill()
            process.wait()
        assert process.stderr is not None
        with process.stderr as stderr:
            assert (code, stderr.read()) == (0, b"")
        assert first == DEAD.encode()[:10]
