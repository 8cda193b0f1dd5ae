"""Tests here have no Spark: counts of what it reads are of the fakes' own rows."""

from __future__ import annotations

import pytest

from tests.handlers.spark.kit import count_fakes


@pytest.fixture(autouse=True)
def _counts(monkeypatch: pytest.MonkeyPatch) -> None:
    count_fakes(monkeypatch)
