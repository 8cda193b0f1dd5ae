"""Names that users of an older build may use still exist. New names may have been added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.compatibility.kit import FIXTURES, Recorded, Store, new_cluster, replay
from tests.compatibility.names import documents, event_names, missing, watch
from tests.compatibility.renamed_names import EVENTS, METRICS

NAMES: dict[str, Any] = json.loads((FIXTURES / "names.json").read_text(encoding="utf-8"))


def test_events_keep_their_names_and_fields() -> None:
    found = event_names()
    for name, fields in NAMES["events"].items():
        assert set(fields) <= set(found[EVENTS.get(name, name)]), name


@pytest.mark.integration
async def test_service_shows_the_same_names(tmp_path: Path) -> None:
    """Compare the pages, the metrics and the log of a running service with the recorded ones."""
    watched = await watch(tmp_path)

    assert missing(NAMES["status"], watched.status) == []
    assert watched.answers == NAMES["answers"]
    assert [
        (event, key)
        for event, keys in NAMES["log"].items()
        for key in keys
        if key not in watched.log[EVENTS.get(event, event)]
    ] == []
    for name, recorded in NAMES["metrics"].items():
        found = watched.metrics[METRICS.get(name, name)]
        assert found["type"] == recorded["type"], name
        missing_values = {
            label: sorted(set(values) - set(found["labels"][label])) for label, values in recorded["labels"].items()
        }
        assert not any(missing_values.values()), name


@pytest.mark.parametrize("command", NAMES["documents"])
async def test_printed_documents_have_the_same_keys(command: str, tmp_path: Path) -> None:
    recorded, store = Recorded.read(), Store(tmp_path)
    store.unpack("parquet", "plain")
    async with new_cluster(at=recorded.at) as cluster:
        replay(cluster, recorded)
        found = await documents(store.path("parquet", "plain"), cluster, only=command)
    assert missing(NAMES["documents"][command], found[command]) == []
