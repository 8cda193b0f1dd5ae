"""docs/configuration.md equals the generated text, and has every option and every name of Kafka."""

from __future__ import annotations

import re
from pathlib import Path

import attrs
import pytest

from sarameya import Config, TopicConfig
from sarameya.service.app.app_file import ServiceSection
from sarameya.service.cli import options_page
from tests.docs.pages import blocks, page

ROOT = Path(__file__).parents[2]
PAGE = page("configuration")
KAFKA_NAMES = (ROOT / "tests" / "config" / "golden" / "kafka_names.txt").read_text(encoding="ascii")


def test_page_equals_the_generated_text() -> None:
    assert options_page.page() == PAGE, "docs/configuration.md is stale; run: make configuration"


@pytest.mark.parametrize("kind", [Config, TopicConfig, ServiceSection])
def test_every_option_has_a_row(kind: type) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert {field.name for field in attrs.fields(kind)} <= set(rows)


def test_every_kafka_name_has_a_row() -> None:
    names = {line.split("\t")[0] for line in KAFKA_NAMES.splitlines()} - {"bootstrap.servers", "group.id"}
    assert {name for name in names if f"`{name}`" not in PAGE} == set()


def test_rows_have_as_many_cells_as_their_header() -> None:
    for block in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block


def test_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "client.properties").write_text("group.id = orders\nclient.id = me\n")
    [block] = blocks(PAGE, "python")
    names: dict[str, object] = {}
    exec(block, names)
    assert names["config"] == Config(session_timeout=6.0, offset_initial="oldest")
    client = names["client"]
    assert (client.group_id, client.config) == ("orders", Config(client_id="me"))  # type: ignore[attr-defined]
