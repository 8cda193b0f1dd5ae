"""Output and exit codes of `sarameya topics ...`, called in this process, over TCP."""

from __future__ import annotations

import pytest

from sarameya.embedded import EmbeddedCluster
from sarameya.error_codes import ErrorCode
from sarameya.protocol.versions import Api
from tests.service.kit import Outcome, called


async def topics(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str], *argv: str, servers: str = ""
) -> Outcome:
    """Run the command in a thread, with this cluster."""
    here = ["--bootstrap-servers", servers or ",".join(cluster.bootstrap_servers)]
    return await called(capsys, "topics", *argv, *here)


async def test_topic_is_created_listed_described_grown_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster() as cluster:
        assert (await topics(cluster, capsys, "list")).out == "no topics\n"
        created = await topics(cluster, capsys, "create", "orders", "audit", "--partitions", "2")
        assert (created.code, created.err) == (0, "")
        assert created.out == "topic 'orders', with 2 partitions: created\ntopic 'audit', with 2 partitions: created\n"
        cluster.produce_many("orders", 1, [(None, b"x")] * 5)

        assert (await topics(cluster, capsys, "list")).out.splitlines() == [
            "TOPIC   PARTITIONS  REPLICAS  NO-LEADER  NOT-IN-SYNC",
            "audit            2         1          0            0",
            "orders           2         1          0            0",
        ]
        described = (await topics(cluster, capsys, "describe", "orders")).out.splitlines()
        assert described[0] == "TOPIC orders"
        assert described[1].startswith("  id          ")
        assert described[2:] == [
            "  partitions  2",
            "  replicas    1",
            "  offsets     5",
            "  settings    -",
            "",
            "PARTITION  LEADER  EPOCH  REPLICAS  IN-SYNC  LOG-START  LOG-END",
            "        0       0      0  0         0                0        0",
            "        1       0      0  0         0                0        5",
        ]

        shown = await topics(cluster, capsys, "grow", "orders", "--partitions", "3")
        assert shown.code == 0
        assert shown.out.splitlines()[0] == "topic 'orders': 2 to 3 partitions; this cannot be undone"
        assert shown.out.splitlines()[-1] == "Nothing is changed yet: add --execute to do it."
        grown = await topics(cluster, capsys, "grow", "orders", "--partitions", "3", "--execute")
        assert grown.out == "topic 'orders': 2 to 3 partitions: done\n"

        shown = await topics(cluster, capsys, "delete", "orders", "audit")
        assert shown.out.splitlines() == [
            "topic 'orders', with 3 partitions and 5 offsets: would be deleted with all its messages",
            "topic 'audit', with 2 partitions and 0 offsets: would be deleted with all its messages",
            "Nothing is changed yet: add --execute to do it.",
        ]
        deleted = await topics(cluster, capsys, "delete", "orders", "audit", "--execute")
        assert deleted.out.splitlines()[0] == "topic 'orders', with 3 partitions and 5 offsets: deleted"
        assert (await topics(cluster, capsys, "list", "--internal")).out == "no topics\n"


async def test_every_command_has_a_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"x")
        (row,) = (await topics(cluster, capsys, "list", "--json")).document["topics"]
        topic_id = row.pop("topic_id")
        assert row == {
            "topic": "orders",
            "internal": False,
            "replication_factor": 1,
            "partitions": 1,
            "without_leader": 0,
            "not_in_sync": 0,
        }
        assert (await topics(cluster, capsys, "describe", "--all", "--json")).document == {
            "topics": [
                {
                    "topic": "orders",
                    "topic_id": topic_id,
                    "internal": False,
                    "replication_factor": 1,
                    "offsets": 1,
                    "settings": {},
                    "partitions": [
                        {
                            "partition": 0,
                            "leader": 0,
                            "leader_epoch": 0,
                            "replicas": [0],
                            "in_sync": [0],
                            "log_start_offset": 0,
                            "log_end_offset": 1,
                            "problem": None,
                        }
                    ],
                    "advice": [],
                }
            ],
            "errors": [],
        }
        created = await topics(cluster, capsys, "create", "new", "--json")
        assert created.document == {"executed": True, "topics": [{"topic": "new", "error": None}]}
        grown = await topics(cluster, capsys, "grow", "new", "--partitions", "9", "--json")
        assert grown.document == {"executed": False, "topic": "new", "partitions": 1, "new_partitions": 9}
        deleted = await topics(cluster, capsys, "delete", "new", "--json")
        assert deleted.document == {"executed": False, "topics": [{"topic": "new", "error": None}]}


@pytest.mark.parametrize(
    ("argv", "code", "out", "error"),
    [
        (
            ["create", "new", "orders"],
            2,
            "topic 'new': created\ntopic 'orders': not created\n",
            "topic 'orders': TOPIC_ALREADY_EXISTS (36); topic 'orders' exists",
        ),
        (
            ["create", "new", "--replication-factor", "3"],
            2,
            "topic 'new': not created\n",
            "INVALID_REPLICATION_FACTOR (38); ",
        ),
        (
            ["describe", "nothing"],
            1,
            "",
            "topic 'nothing': UNKNOWN_TOPIC_OR_PARTITION (3); `sarameya topics list` shows the existing ones",
        ),
        (["delete", "orders", "nothing", "--execute"], 1, "", "`sarameya topics list` shows the existing ones"),
        (["grow", "orders", "--partitions", "1"], 2, "", "must be more than the 1 that topic 'orders' has"),
        (["describe"], 2, "", "name topics, or give --all (see `sarameya topics describe --help`)"),
        (["create", "a", "--partitions", "0"], 2, "", "'0' must be a whole number of at least 1"),
        (["create", "a", "--config", "x"], 2, "", "'x' must be NAME=VALUE, for example retention.ms=86400000"),
    ],
)
async def test_failure_prints_one_line_with_the_remedy(
    argv: list[str], code: int, out: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        outcome = await topics(cluster, capsys, *argv)
        assert (outcome.code, outcome.out) == (code, out)
        (line,) = outcome.err.splitlines()
        assert error in line


@pytest.mark.parametrize("names", [["orders", "nothing"], ["nothing", "orders"]])
async def test_missing_topic_does_not_hide_the_others(names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    refusal = "topic 'nothing': UNKNOWN_TOPIC_OR_PARTITION (3); `sarameya topics list` shows the existing ones"
    async with EmbeddedCluster({"orders": 1}) as cluster:
        alone = await topics(cluster, capsys, "describe", "orders")
        shown = await topics(cluster, capsys, "describe", *names)
        assert (shown.code, shown.out) == (1, alone.out)
        assert shown.err == f"sarameya: error: {refusal}\n"
        as_json = await topics(cluster, capsys, "describe", *names, "--json")
        assert (as_json.code, as_json.err) == (1, shown.err)
        assert [row["topic"] for row in as_json.document["topics"]] == ["orders"]
        assert as_json.document["errors"] == [{"topic": "nothing", "error": refusal}]


async def test_unauthorized_settings_are_reported_beside_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        cluster.fail_next(Api.DESCRIBE_CONFIGS, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        outcome = await topics(cluster, capsys, "describe", "orders")
        assert outcome.code == 0
        assert "settings  " not in outcome.out
        assert outcome.out.splitlines()[-1] == (
            "its settings are unknown: topic 'orders': TOPIC_AUTHORIZATION_FAILED (29); it needs the ACL "
            "DESCRIBE_CONFIGS on the topic"
        )


async def test_unreachable_cluster_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async with EmbeddedCluster() as cluster:
        outcome = await topics(cluster, capsys, "list", "--timeout", "0.5", servers="127.0.0.1:1")
        assert outcome.code == 1
        assert outcome.err.splitlines()[-1].endswith("start the broker, or correct bootstrap_servers")
