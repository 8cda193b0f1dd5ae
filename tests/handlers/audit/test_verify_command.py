"""Output and exit code of `sarameya verify` for a Parquet table, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import trio

from sarameya import CommittedOffset, Config, GroupAdmin
from sarameya.embedded import EmbeddedCluster
from sarameya.service.cli import main
from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.links import ChainKey, CommitNote
from tests.handlers.audit.fake_table import links_of
from tests.handlers.audit.kit import land

KEY = ChainKey("warehouse", "orders", 0)

Call = Callable[..., tuple[int, str, str]]
"""A call of the program that returns its exit code, stdout and stderr."""


@pytest.fixture
def table(tmp_path: Path) -> ParquetTable:
    table = ParquetTable(tmp_path / "orders")
    table.open(None)  # type: ignore[arg-type]
    land(table, *links_of(KEY, 4, 9))
    return table


@pytest.fixture
def outcome(capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(argv)
        return (code, *capsys.readouterr())

    return call


def test_sound_table_is_proved(table: ParquetTable, outcome: Call) -> None:
    code, out, err = outcome("verify", str(table.path))
    assert code == 0
    assert out.splitlines() == [
        f"TABLE parquet:{table.path}",
        "",
        "SINK       TOPIC   PARTITION  GROUP    LINKS  FROM  TO  ROWS  COUNTED  COMMITTED  LOG-END  LAG",
        "warehouse  orders          0  billing      2     0   9     9        9  -          -        -",
        "",
        "PROVED: 1 chain, 2 links, 9 rows counted",
    ]
    assert err.splitlines() == [
        f"parquet:{table.path}: looking for its chains",
        "reading the links of 1 chain",
        "counting rows, by 2 links",
    ]


def test_each_defect_has_a_line_with_its_remedy(table: ParquetTable, outcome: Call) -> None:
    pq.write_table(pa.table({"topic": ["orders"], "partition": [0], "offset": [3]}), table.path / "mine.parquet")
    code, out, err = outcome("verify", f"parquet:{table.path}", "--quiet")
    assert (code, err) == (1, "")
    assert out.splitlines()[5:] == [
        "wrong     rows-extra: warehouse/orders-0: link 1, offsets [0, 4): 1 row more than its 4; find the "
        "other writer of the table, and delete its rows",
        "wrong     offsets-repeated: warehouse/orders-0: link 1, offsets [0, 4): 1 duplicate row (same offset); "
        "delete all but one of each; if the sink's transform makes several rows of a record, --accept offsets-repeated",
        "",
        "NOT PROVED: 2 wrong",
    ]


def test_accepted_finding_is_printed_and_the_table_proved(table: ParquetTable, outcome: Call) -> None:
    [path] = table.path.glob("part-*-00000000000000000009-*.parquet")
    pq.write_table(pq.read_table(path).slice(2), path)
    assert outcome("verify", str(table.path), "--quiet")[0] == 1
    code, out, _ = outcome("verify", str(table.path), "--quiet", "--accept", "rows-missing")
    assert code == 0
    assert out.splitlines()[5:] == [
        "SINK       TOPIC   PARTITION  OFFSETS  WITH-ROWS  DEAD-LETTERS  DROPPED  MISSING  GAPS  WITHOUT-RECORD  "
        "UNKNOWN",
        "warehouse  orders          0        9          7             0        0        2     0               0  "
        "      0",
        "",
        "accepted  rows-missing: warehouse/orders-0: link 2, offsets [4, 9): 2 of its 5 rows were deleted later, "
        "or lost; if they were deleted on purpose, --accept rows-missing; else restore the table, rewind its group",
        "",
        "PROVED: 1 chain, 2 links, 7 rows counted, except for 1 finding that you accept",
    ]


def test_missing_data_file_is_wrong(table: ParquetTable, outcome: Call) -> None:
    [path] = table.path.glob("part-*-00000000000000000009-*.parquet")
    path.unlink()
    code, out, _ = outcome("verify", str(table.path), "--quiet")
    assert code == 1
    [line] = [line for line in out.splitlines() if line.startswith("wrong")]
    assert line.startswith("wrong     rows-unreadable: the table's rows cannot be read: FileNotFoundError: ")
    assert str(path) in line


def test_missing_manifest_is_wrong(table: ParquetTable, outcome: Call) -> None:
    land(table, *links_of(KEY, 4, 9, *range(10, 27))[2:])
    [path] = table.path.glob("_sarameya/links/*/*/*/00000000000000000003.json")
    path.unlink()
    code, out, _ = outcome("verify", str(table.path), "--quiet")
    assert code == 1
    assert "wrong     link-missing: warehouse/orders-0: links 3 to 19 are missing" in out


def test_json_document_has_chains_findings_and_leftovers(table: ParquetTable, outcome: Call) -> None:
    (table.staging.directory / f"{'a' * 32}.parquet").write_bytes(b"123")
    code, out, err = outcome("verify", str(table.path), "--json", "--quiet")
    document = json.loads(out)
    assert (code, err, document["proved"], document["rows"]) == (0, "", True, 9)
    [chain] = document["chains"]
    assert (chain["links"], chain["from_offset"], chain["to_offset"], chain["rows_counted"]) == (2, 0, 9, 9)
    assert (chain["committed_offset"], chain["committed_link"], chain["lag"], chain["gaps"]) == (None, None, None, [])
    assert chain["head"] == {"number": 2, "attempt": links_of(KEY, 4, 9)[1].attempt, "to_offset": 9}
    assert [(f["severity"], f["code"], f["where"]) for f in document["findings"]] == [("note", "leftovers", "")]
    assert [(left["size_bytes"], left["what"]) for left in document["leftovers"]] == [(3, "a staged file")]


def test_links_only_does_not_count_rows(table: ParquetTable, outcome: Call) -> None:
    pq.write_table(pa.table({"topic": ["orders"], "partition": [0], "offset": [3]}), table.path / "mine.parquet")
    code, out, _ = outcome("verify", str(table.path), "--quiet", "--links-only")
    assert code == 0
    assert out.splitlines()[-1] == "PROVED: 1 chain, 2 links, rows not counted"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["verify"], "name a TABLE, or give --app APP.toml for all its tables"),
        (["verify", "hudi:x"], "table = 'hudi:x': must be parquet:PATH"),
        (["verify", "x", "--accept", "lag"], "argument --accept: 'lag' is not a kind of finding; choose from "),
        (["verify", "x", "--conf", "a=b"], "argument --conf: 'a=b': a Spark property's name begins with 'spark.'"),
        (["verify", "x", "--conf", "spark.a"], "argument --conf: 'spark.a' must be spark.NAME=VALUE"),
        (["verify", "x", "--conf", "secret.key=sesame"], "argument --conf: 'secret.key=***': a Spark property's name"),
        (["verify", "x", "--conf", "spark.secret.key sesame"], "argument --conf: 'spark.secret.key' must be spark.N"),
        (["verify", "x", "--conf", "spark.secret.key:sesame"], "argument --conf: 'spark.secret.key' must be spark.N"),
        (["sweep", "x"], "the following arguments are required: --older-than"),
        (["sweep", "x", "--older-than", "1"], "'1' must be a number with one of s, min, h, d, w, for example 1d"),
        (
            ["sweep", "x", "--older-than", "59min"],
            "must be at least 1.0 h: younger files may belong to a write under way",
        ),
        (["rewind", "x"], "one of the arguments --to-version --to-head is required"),
        (["rewind", "x", "--to-head"], "the cluster is missing: --bootstrap HOST:PORT"),
        (["rewind", "x", "--to-version", "3", "--bootstrap", "a:1"], "keeps no versions"),
    ],
)
def test_invalid_arguments_are_reported_in_one_line(
    argv: list[str], message: str, outcome: Call, tmp_path: Path
) -> None:
    (tmp_path / "x").mkdir()
    code, out, err = outcome(
        *[str(tmp_path / "x") if word == "x" else word for word in argv], *["--quiet"][: len(argv) > 1]
    )
    assert (code, out) == (2, "")
    assert message in err
    assert "sesame" not in err
    assert len(err.splitlines()) == 1


def test_missing_directory_is_named_and_not_created(tmp_path: Path, outcome: Call) -> None:
    code, out, err = outcome("verify", str(tmp_path / "nothing"), "--quiet")
    assert (code, out) == (2, "")
    assert f"the directory {tmp_path / 'nothing'} does not exist" in err
    assert not (tmp_path / "nothing").exists()


def test_directory_without_chains_is_not_proved(tmp_path: Path, outcome: Call) -> None:
    code, out, _ = outcome("verify", str(tmp_path), "--quiet")
    assert code == 1
    assert "unproved  no-chains: " in out
    assert list(tmp_path.iterdir()) == []


async def test_commits_and_logs_are_compared_with_the_table(
    table: ParquetTable, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        cluster.produce_many("orders", 0, [(None, b"x")] * 12)
        servers = tuple(cluster.bootstrap_servers)

        async def commit(offset: int, note: CommitNote | None) -> None:
            commits = {KEY.topic_partition: CommittedOffset(offset, note.to_metadata() if note else "")}
            async with GroupAdmin(servers, Config(), lambda event: None) as admin:
                assert set((await admin.commit("billing", commits)).values()) == {0}

        async def verify() -> tuple[int, str]:
            capsys.readouterr()
            argv = ["verify", str(table.path), "--quiet", "--bootstrap", ",".join(servers)]
            code = await trio.to_thread.run_sync(main, argv)
            out, err = capsys.readouterr()
            assert err == ""
            return code, out

        await commit(9, CommitNote.of(links_of(KEY, 4, 9)[1]))
        code, out = await verify()
        assert code == 0, out
        assert out.splitlines()[3].split()[4:] == ["2", "0", "9", "9", "9", "9", "12", "3"]
        assert "note      lag: warehouse/orders-0: 3 offsets of the log have not landed yet" in out
        await commit(12, None)
        code, out = await verify()
        assert code == 1
        assert "wrong     commit-moved: warehouse/orders-0: link 2 of warehouse/orders-0 [4, 9)" in out
        assert f"; sarameya rewind parquet:{table.path} --to-head --bootstrap HOST:PORT --execute\n" in out


def test_verify_of_a_parquet_table_does_not_import_spark(table: ParquetTable) -> None:
    program = (
        "import sys\n"
        "from sarameya.service.cli import main\n"
        f"assert main(['verify', {str(table.path)!r}, '--quiet']) == 0\n"
        "print([name for name in ('pyspark', 'py4j') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
