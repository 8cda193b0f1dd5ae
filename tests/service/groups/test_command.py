"""Output and exit codes of `sarameya groups ...`, called in this process, over TCP."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from sarameya.embedded import EmbeddedCluster
from sarameya.service.cli import main
from tests.group.kit import committed
from tests.service.groups.kit import tp
from tests.service.kit import called

ORDERS_0 = tp("orders-0")


def place(cluster: EmbeddedCluster) -> list[str]:
    return ["--bootstrap-servers", ",".join(cluster.bootstrap_servers)]


async def test_group_commands_create_list_describe_and_reset(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with EmbeddedCluster({"orders": 2}) as cluster:
        cluster.produce_many("orders", 0, [(None, b"x")] * 5)
        here = place(cluster)
        make = ["groups", "offsets", "reset", "g", "--topic", "orders", "--to-offset", "3"]

        assert (await called(capsys, "groups", "list", *here)).out == "no groups\n"
        shown = await called(capsys, *make, *here)
        assert (shown.code, committed(cluster)) == (0, {})
        done = await called(capsys, *make, "--execute", *here)
        assert (done.code, done.err, committed(cluster)) == (0, "", {"orders-0": 3, "orders-1": 0})
        assert done.out.splitlines()[2:5] == [
            "TOPIC   PARTITION  COMMITTED  NEW  LAG  NEW-LAG  NOTE",
            "orders          0  -            3  -          2  -",
            "orders          1  -            0  -          0  3 is after the end of the log",
        ]
        listed = await called(capsys, "groups", "list", "--json", *here)
        assert [group["group"] for group in listed.document["groups"]] == ["g"]
        described = await called(capsys, "groups", "describe", "g", *here)
        assert described.out.startswith("GROUP g\n  state        Empty\n")
        document = (await called(capsys, "groups", "describe", "--all", "--json", *here)).document
        assert document["groups"][0]["lag"] == 2
        assert document["errors"] == document["unreachable"] == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 5),
        (["--to-current"], 3),
        (["--to-offset", "1"], 1),
        (["--shift-by", "1"], 4),
        (["--shift-by", "-1"], 2),
        (["--to-datetime", "2999-01-01T00:00:00Z"], 5),
        (["--to-datetime", "1970-01-02"], 0),
        (["--by-duration", "P1D"], 0),
        (["--by-duration", "P999999999D"], 0),
        (["--to", "oldest"], 0),
        (["--to", "newest"], 5),
        (["--to", "timestamp:2999-01-01T00:00:00Z"], 5),
        (["--to", "by_duration:P1D"], 0),
    ],
)
async def test_every_reset_target_is_accepted(
    capsys: pytest.CaptureFixture[str], target: list[str], expected: int
) -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        cluster.produce_many("orders", 0, [(None, b"x")] * 5)
        reset = ["groups", "offsets", "reset", "g", "--execute", "--json", *place(cluster)]
        await called(capsys, *reset, "--topic", "orders:0", "--to-offset", "3")
        done = await called(capsys, *reset, "--all-topics", *target)
        assert done.code == 0
        assert [row["new_offset"] for row in done.document["partitions"]] == [expected]
        assert committed(cluster) == {"orders-0": expected}


async def test_deletions_are_shown_and_then_executed(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster({"orders": 2}) as cluster:
        here = place(cluster)
        await called(capsys, "groups", "offsets", "reset", "g", "--topic", "orders", "--to-latest", "--execute", *here)
        delete = ["groups", "offsets", "delete", "g", "--topic", "orders:1", *here]
        assert "add --execute" in (await called(capsys, *delete)).out
        assert (await called(capsys, *delete, "--execute")).code == 0
        assert committed(cluster) == {"orders-0": 0}
        assert (await called(capsys, "groups", "delete", "g", *here)).code == 0
        assert committed(cluster) == {"orders-0": 0}
        assert (await called(capsys, "groups", "delete", "g", "--execute", *here)).code == 0
        assert committed(cluster) == {}


async def test_app_file_names_cluster_and_group(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        app = tmp_path / "app.toml"
        app.write_text(
            f"""
            bootstrap_servers = {json.dumps(cluster.bootstrap_servers)}
            group = "of-the-app"
            topics = ["orders"]
            handler.name = "print"
            """
        )
        reset = ["groups", "offsets", "reset", "--app", str(app), "--topic", "orders", "--to-latest", "--execute"]
        assert (await called(capsys, *reset)).code == 0
        assert committed(cluster, "of-the-app") == {"orders-0": 0}
        described = await called(capsys, "groups", "describe", "--app", str(app), "--json")
        assert [group["group"] for group in described.document["groups"]] == ["of-the-app"]


async def test_missing_group_is_reported_beside_the_found_ones(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        here = place(cluster)
        await called(capsys, "groups", "offsets", "reset", "g", "--topic", "orders", "--to-latest", "--execute", *here)
        outcome = await called(capsys, "groups", "describe", "g", "nobody", "--json", *here)
        assert outcome.code == 1
        assert [group["group"] for group in outcome.document["groups"]] == ["g"]
        assert outcome.err == (
            "sarameya: error: group 'nobody': GROUP_ID_NOT_FOUND (69); there is no such group; "
            "`sarameya groups list` shows the groups that exist\n"
        )


async def test_refused_reset_prints_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        reset = ["groups", "offsets", "reset", "g", "--all-topics", "--to-latest", "--json", *place(cluster)]
        outcome = await called(capsys, *reset)
        assert (outcome.code, outcome.out) == (1, "")
        assert outcome.err == "sarameya: error: group 'g' has no commits; name the partitions to commit by --topic\n"


async def test_debug_after_the_subcommand_has_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster() as cluster:
        outcome = await called(capsys, "groups", "describe", "nobody", "--debug", *place(cluster))
        assert outcome.code == 1
        assert "Traceback (most recent call last):" in outcome.err


def test_unreachable_cluster_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["groups", "list", "--bootstrap-servers", "127.0.0.1:1", "--timeout", "0.3", "--log-level", "error"]
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert error.startswith("sarameya: error: no broker could be reached: 127.0.0.1:1: ")
    assert "Connection refused" in error
    assert error.endswith("start the broker, or correct bootstrap_servers\n")
    assert error.count("\n") == 1


HERE = ["--bootstrap-servers", "127.0.0.1:1"]
RESET = ["groups", "offsets", "reset", "g"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["groups"], "the following arguments are required: COMMAND (see `sarameya groups --help`)"),
        (["groups", "offsets"], "the following arguments are required: COMMAND (see `sarameya groups offsets --help`)"),
        (
            ["groups", "list"],
            "the cluster is missing: --bootstrap HOST:PORT, --properties FILE, --app APP.toml, or "
            "SARAMEYA_BOOTSTRAP_SERVERS (see `sarameya groups list --help`)",
        ),
        (
            ["groups", "list", "--state", "Stable,Idle", *HERE],
            "argument --state: 'Idle' is no state; the states are Empty, PreparingRebalance, CompletingRebalance, "
            "Stable, Dead, Assigning, Reconciling, NotReady (see `sarameya groups list --help`)",
        ),
        (
            ["groups", "describe", *HERE],
            "no group is named: give GROUP, or name it by --app, --properties or SARAMEYA_GROUP "
            "(see `sarameya groups describe --help`)",
        ),
        (
            ["groups", "describe", "g", "--all", *HERE],
            "name groups, or give --all (see `sarameya groups describe --help`)",
        ),
        (
            ["groups", "delete", *HERE],
            "no group is named: give GROUP, or name it by --app, --properties or SARAMEYA_GROUP "
            "(see `sarameya groups delete --help`)",
        ),
        (
            [*RESET, "--to-latest", *HERE],
            "one of the arguments --topic --all-topics is required (see `sarameya groups offsets reset --help`)",
        ),
        (
            [*RESET, "--all-topics", "--topic", "orders", "--to-latest", *HERE],
            "argument --topic: not allowed with argument --all-topics (see `sarameya groups offsets reset --help`)",
        ),
        (
            [*RESET, "--all-topics", *HERE],
            "one of the arguments --to-earliest --to-latest --to-current --to --to-offset --shift-by --to-datetime "
            "--by-duration is required (see `sarameya groups offsets reset --help`)",
        ),
        (
            [*RESET, "--all-topics", "--to-latest", "--to-earliest", *HERE],
            "argument --to-earliest: not allowed with argument --to-latest "
            "(see `sarameya groups offsets reset --help`)",
        ),
        (
            [*RESET, "--topic", "orders:", "--to-latest", *HERE],
            "argument --topic: 'orders:' must be TOPIC or TOPIC:PARTITIONS, for example orders or orders:0,2-4 "
            "(see `sarameya groups offsets reset --help`)",
        ),
        (
            [*RESET, "--all-topics", "--to", "fail", *HERE],
            "argument --to: 'fail' is no offset to reset to (see `sarameya groups offsets reset --help`)",
        ),
        (
            [*RESET, "--all-topics", "--to", "by_duration:1h", *HERE],
            "argument --to: 'by_duration:1h' must be a duration of ISO 8601 in weeks, days, hours, minutes and "
            "seconds, for example PT1H or P1DT12H (see `sarameya groups offsets reset --help`)",
        ),
        (
            [*RESET, "--all-topics", "--shift-by", "some", *HERE],
            "argument --shift-by: 'some' must be a whole number (see `sarameya groups offsets reset --help`)",
        ),
    ],
)
def test_wrong_command_line_prints_one_line_and_exits_with_2(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr() == ("", f"sarameya: error: {message}\n")


def test_wrong_option_is_reported_with_a_similar_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "list", *HERE, "-o", "clientid=x"]) == 2
    assert capsys.readouterr().err.startswith(
        "sarameya: error: sarameya groups list: config.clientid = 'x': no such option; did you mean 'client_id'?"
    )


async def test_output_closed_by_its_reader_ends_the_command() -> None:
    async with EmbeddedCluster({"orders": 1000}) as cluster:
        reset = ["groups", "offsets", "reset", "g", "--topic", "orders", "--to-latest", *place(cluster)]
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "sarameya.service", *reset], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with trio.fail_after(30):
            await process.stdout.aclose()
            stderr = b"".join([chunk async for chunk in process.stderr])
            assert (await process.wait(), stderr) == (0, b"")
