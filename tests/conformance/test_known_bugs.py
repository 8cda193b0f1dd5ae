"""The suite can fail: tables with the bugs that landing is known for do not pass it. Parquet, without Spark."""

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
from tests.conformance.owners import KEY, Takeover, check_zombie_loses, check_zombie_wins
from tests.conformance.proof import offsets, prove_rows

REFUSED = (AssertionError, ChainError)


def two(table: ParquetTable) -> Takeover:
    table.open(None)
    both = Takeover(table, Shaping(), [None, None])
    assert both.zombie().append(5).outcome is Outcome.LANDED
    return both


def test_table_without_a_compare_and_swap_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes later overwrites."""

    def overwrite(self: Manifests, manifest: Manifest) -> bool:
        (self._directory(manifest.link.key) / f"{manifest.link.number:020d}.json").unlink(missing_ok=True)
        return put(self, manifest)

    put = Manifests.put
    monkeypatch.setattr(Manifests, "put", overwrite)
    for scenario in (check_zombie_loses, check_zombie_wins):
        with pytest.raises(REFUSED):
            scenario(two(ParquetTable(tmp_path / scenario.__name__)), Phase.WRITTEN, 8, 3)


class NumberedByOffset(ParquetTable):
    """Takes whatever ends behind what it has, as a table does whose version is the Kafka offset."""

    def land(self, spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        (landing,) = landings

        def renumber(phase: Phase, told: Sequence[Landing]) -> None:
            checkpoint(phase, told)
            head = self.heads(spark, [landing.link.key]).get(landing.link.key)
            if head is not None and phase is Phase.WRITTEN and landing.link.to_offset > head.to_offset:
                object.__setattr__(landing, "link", attrs.evolve(landing.link, number=head.number + 1))

        super().land(spark, landings, shape, renumber)


def test_offsets_in_place_of_numbers_are_found_out(tmp_path: Path) -> None:
    """The zombie's longer batch lands over the new owner's shorter one."""
    both = two(NumberedByOffset(tmp_path / "shorter"))
    check_zombie_loses(both, Phase.WRITTEN, 2, 3)  # which is refused, as it should
    both = two(NumberedByOffset(tmp_path / "longer"))
    with pytest.raises(REFUSED):
        check_zombie_loses(both, Phase.WRITTEN, 8, 3)
    with pytest.raises(AssertionError, match="4 rows too many"):
        prove_rows(both.table, None, offsets({KEY: 5 + 8}))


class Believing(ParquetTable):
    """Takes a landing that has raised nothing for one that has won, as a sink does that reads nothing back."""

    believed: list[Link] = []

    def land(self, spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        super().land(spark, landings, shape, checkpoint)
        self.believed = [landing.link for landing in landings]

    def links(self, spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
        links, believed = [*super().links(spark, key, since)], self.believed
        self.believed = []
        return [*links[: believed[0].number - since], *believed] if believed else links


def test_success_that_is_believed_is_found_out(tmp_path: Path) -> None:
    for scenario in (check_zombie_loses, check_zombie_wins):
        with pytest.raises(REFUSED):
            scenario(two(Believing(tmp_path / scenario.__name__)), Phase.WRITTEN, 8, 3)
