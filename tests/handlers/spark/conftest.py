"""Fixtures for tests without Spark: the count of the rows that a job reads comes from the fake frame."""

from __future__ import annotations

import pytest

from tests.handlers.spark.kit import count_fakes


@pytest.fixture(autouse=True)
def _counts(monkeypatch: pytest.MonkeyPatch) -> None:
    count_fakes(monkeypatch)
