"""Claims of docs/landing.md match the code: start offsets, figures, options, examples."""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs
import pyspark
import pytest

from sarameya import CommittedOffset, Config
from sarameya.service.app.app_file import SERVICE_KEYS
from sarameya_handlers.landing.chain_start import ChainStart, Log, choose_chain_start
from sarameya_handlers.landing.errors import ChainError, ForgottenChainError
from sarameya_handlers.landing.links import Link, Origin
from sarameya_handlers.spark.delta.checks import KEPT_BY_DEFAULT
from sarameya_handlers.spark.delta.commit_rules import CommitRules
from sarameya_handlers.spark.delta.history.growth import LONG_LOG, LONG_SINCE_CHECKPOINT
from sarameya_handlers.spark.engines.lease import ORPHAN_ENDS_WITHIN
from sarameya_handlers.spark.iceberg.catalog import _DEFAULT_AGE_MS, SHORTEST_RETENTION
from sarameya_handlers.spark.iceberg.table_state import MANY_SNAPSHOTS
from sarameya_handlers.spark.sink.options import LAYOUT, OTHERS, PLAIN
from sarameya_handlers.spark.tables.one_job import MAX_TOGETHER
from sarameya_handlers.spark.tables.table import Phase
from tests.conformance.contenders import CONTENDERS
from tests.conformance.results import lake_versions
from tests.docs.pages import inline, page
from tests.handlers.landing.test_chain_start import HEAD, KEY, LOG, ORIGIN, noted
from tests.model.test_landing_model import SCHEDULES

PAGE = page("landing")
PLAIN_TEXT = " ".join(PAGE.split())
DAY = 24 * 3600


def starts(
    head: Link | None = HEAD, committed: CommittedOffset | None = None, log: Log = LOG, origin: Origin = ORIGIN
) -> Callable[[bool], ChainStart]:
    return lambda leaves_out: choose_chain_start(KEY, origin, head, committed, log, may_leave_out=leaves_out)


FOUND = {
    "a chain, and an older commit or none": [starts(committed=noted(50, 3, "a3")), starts()],
    "the same link in both": [starts(committed=noted(93, 4, "a4"))],
    "the commit names a link that the table lacks": [
        starts(None, noted(50, 3, "a3")),
        starts(committed=noted(99, 5, "a5")),
    ],
    "the commit is beyond the chain's end, and no sink has made it": [starts(committed=CommittedOffset(200))],
    "the commit is before the chain's first link, and no sink has made it": [
        starts(attrs.evolve(HEAD, origin=attrs.evolve(ORIGIN, begin=30)), CommittedOffset(29)),
    ],
    "the links are another group's": [starts(origin=Origin(group="other", topic_id=ORIGIN.topic_id))],
    "the links are of a recreated topic, or of another cluster": [
        starts(origin=Origin(group=ORIGIN.group, topic_id="f" * 32)),
        starts(
            attrs.evolve(HEAD, origin=Origin(group=ORIGIN.group, cluster_id="there")),
            origin=Origin(group=ORIGIN.group, cluster_id="here"),
        ),
    ],
    "the table has forgotten the chain's end": [],  # raised by the tables: ForgottenChainError
    "the log was truncated below the landed records": [starts(log=Log(start=0, end=80))],
    "retention deleted records that have not landed": [starts(log=Log(start=200, end=1000))],
}
"""Situations in the first column of the page's table, and starts that correspond to them."""


def table(header: str) -> dict[str, str]:
    """Return the first two columns of the table whose header starts with this text."""
    [rows] = re.findall(rf"^\| {header} \|.*\n\|---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return dict(re.findall(r"^\| ([^|:]+?)(?::[^|]*)? \| (.*?) \|", rows, re.MULTILINE))


def test_every_situation_of_the_table_has_a_case() -> None:
    assert set(table("found")) == set(FOUND)
    assert issubclass(ForgottenChainError, ChainError)


@pytest.mark.parametrize("found", FOUND)
def test_owner_starts_as_documented(found: str) -> None:
    documented = table("found")[found]
    for start in FOUND[found]:
        if documented.startswith("starts at the chain's end"):
            assert start(False) == ChainStart(HEAD.to_offset)
        elif documented.startswith("starts at the commit"):
            assert start(False) == ChainStart(93)
        else:
            assert documented.startswith("stops")
            with pytest.raises(ChainError):
                start(False)
            if "leave_out" in documented:
                assert start(True).gap is not None
            else:
                with pytest.raises(ChainError):
                    start(True)


def test_retentions_equal_the_code() -> None:
    [delta, iceberg] = re.findall(r"Delta: (\d+) days by default; Iceberg: (\d+)\)", PLAIN_TEXT)[0]
    assert (int(delta) * DAY, int(iceberg) * DAY) == (KEPT_BY_DEFAULT, _DEFAULT_AGE_MS / 1000)
    assert "refuses a retention of less than an hour" in PLAIN_TEXT
    assert SHORTEST_RETENTION == 3600


def test_figures_equal_the_code() -> None:
    [together] = re.findall(r"^\| several partitions in one Spark job \| (\d+) \| (\d+) where", PAGE, re.MULTILINE)
    assert {int(number) for number in together} == {MAX_TOGETHER}
    assert "is refused after fifteen seconds" in PLAIN_TEXT
    assert ORPHAN_ENDS_WITHIN == 15
    assert "one commit in a hundred (or as `delta.checkpointInterval` says)" in PLAIN_TEXT
    assert CommitRules(columns=()).checkpoint_interval == 100


def test_examples_equal_those_of_the_tests() -> None:
    assert "ten thousand random schedules" in PLAIN_TEXT
    assert SCHEDULES == 10_000
    assert "a thousand races for a link between processes (300 where the sink commits to Delta" in PLAIN_TEXT
    assert "itself, and in Azure, a hundred for a ledger" in PLAIN_TEXT
    races = {name: contender.races for name, contender in CONTENDERS.items()}
    own_commits = {"parquet": 1000, "parquet-s3": 1000, "parquet-azure": 300} | dict.fromkeys(
        ("delta-adopted", "delta-adopted-s3"), 300
    )
    assert races == dict.fromkeys(races, 100) | own_commits


def test_versions_equal_those_of_the_tests() -> None:
    lakes = ", ".join(f"{name} {number}" for name, number in lake_versions().items())
    assert f"Spark {pyspark.__version__}, {lakes} " in PLAIN_TEXT


def test_named_options_exist() -> None:
    known = {*PLAIN, *LAYOUT, *OTHERS, *SERVICE_KEYS, *dir(Config())}
    named = {name for name in inline(PAGE) if re.fullmatch(r"[a-z]+(?:_[a-z]+)+", name)}
    assert named >= {"max_age", "file_bytes", "fetch_buffer_bytes", "dead_letters", "single_driver"}
    # Functions of Sarameya, one of SQL, a procedure of Iceberg, and a metric.
    assert named - known == {
        *("landed_files", "read_landing", "try_cast", "expire_snapshots", "sarameya_store_requests_total")
    }


def test_phases_equal_the_code() -> None:
    [documented] = re.findall(r"own observer reports: ([\w, ]+), and in the middle", PLAIN_TEXT)
    assert [Phase(name) for name in documented.split(", ")] == [Phase.STAGED, Phase.READY, Phase.WRITTEN, Phase.LINKED]


def test_warning_sizes_equal_the_code() -> None:
    warned = " ".join(re.findall(r"^\| (\w+: [\d,]+ \w+)", PAGE, re.MULTILINE))
    assert f"Delta: {LONG_SINCE_CHECKPOINT:,} commits" in warned
    assert f"Delta: {LONG_LOG:,} commits" in warned
    assert f"Iceberg: {MANY_SNAPSHOTS:,} snapshots" in warned
    assert SHORTEST_RETENTION == 3600, "the page states an hour at least"
