"""Tables with known bugs of landing do not pass the suite. Parquet, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from sarameya_handlers import ParquetTable
from sarameya_handlers.landing.chain import Outcome
from sarameya_handlers.landing.directory.manifests import Manifest, Manifests
from sarameya_handlers.landing.errors import ChainError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Phase, Shape
from tests.conformance.invariants import offsets, prove_rows
from tests.conformance.owners import KEY, Takeover, check_zombie_loses, check_zombie_wins

REFUSED = (AssertionError, ChainError)


def open_takeover(table: ParquetTable) -> Takeover:
    table.open(None)
    both = Takeover(table, Shaping(), [None, None])
    assert both.zombie().append(5).outcome is Outcome.LANDED
    return both


def test_suite_detects_a_table_without_compare_and_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last writer overwrites the link."""

    def overwrite(self: Manifests, manifest: Manifest) -> bool:
        (self._directory(manifest.link.key) / f"{manifest.link.number:020d}.json").unlink(missing_ok=True)
        return put(self, manifest)

    put = Manifests.put
    monkeypatch.setattr(Manifests, "put", overwrite)
    for scenario in (check_zombie_loses, check_zombie_wins):
        with pytest.raises(REFUSED):
            scenario(open_takeover(ParquetTable(tmp_path / scenario.__name__)), Phase.WRITTEN, 8, 3)


class NumberedByOffset(ParquetTable):
    """A table that accepts each landing that ends beyond its head, as if the Kafka offset were its version."""

    def land(self, spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        (landing,) = landings

        def renumber(phase: Phase, landings_of_phase: Sequence[Landing]) -> None:
            checkpoint(phase, landings_of_phase)
            head = self.heads(spark, [landing.link.key]).get(landing.link.key)
            if head is not None and phase is Phase.WRITTEN and landing.link.to_offset > head.to_offset:
                object.__setattr__(landing, "link", attrs.evolve(landing.link, number=head.number + 1))

        super().land(spark, landings, shape, renumber)


def test_suite_detects_offsets_used_as_link_numbers(tmp_path: Path) -> None:
    """The zombie's longer batch lands over the new owner's shorter one."""
    both = open_takeover(NumberedByOffset(tmp_path / "shorter"))
    check_zombie_loses(both, Phase.WRITTEN, 2, 3)  # the zombie's link is refused, as it should be
    both = open_takeover(NumberedByOffset(tmp_path / "longer"))
    with pytest.raises(REFUSED):
        check_zombie_loses(both, Phase.WRITTEN, 8, 3)
    with pytest.raises(AssertionError, match="4 rows too many"):
        prove_rows(both.table, None, offsets({KEY: 5 + 8}))


class TrustingTable(ParquetTable):
    """A table that regards each landing without an exception as won, as a sink does that reads nothing back."""

    trusted: list[Link] = []

    def land(self, spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        super().land(spark, landings, shape, checkpoint)
        self.trusted = [landing.link for landing in landings]

    def links(self, spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
        links, trusted = [*super().links(spark, key, since)], self.trusted
        self.trusted = []
        return [*links[: trusted[0].number - since], *trusted] if trusted else links


def test_suite_detects_trust_in_a_landing_without_an_error(tmp_path: Path) -> None:
    for scenario in (check_zombie_loses, check_zombie_wins):
        with pytest.raises(REFUSED):
            scenario(open_takeover(TrustingTable(tmp_path / scenario.__name__)), Phase.WRITTEN, 8, 3)
