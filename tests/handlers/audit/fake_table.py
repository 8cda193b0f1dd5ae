"""A table in memory, with chains of links, rows, versions and leftovers. Tests change them to simulate damage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

from sarameya import HandlerError
from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Leftover, Shape, Table

ORIGIN = Origin(group="billing")


def links_of(key: ChainKey, *ends: int, start: int = 0, origin: Origin = ORIGIN) -> list[Link]:
    """Return a chain whose links end at these offsets, each with a row for each offset."""
    starts = [start, *ends]
    return [
        Link(
            key=key,
            number=n + 1,
            from_offset=starts[n],
            to_offset=end,
            rows=end - starts[n],
            records=end - starts[n],
            attempt=f"{key.partition:016x}{n + 1:016x}",
            origin=origin,
        )
        for n, end in enumerate(ends)
    ]


def rows_of(links: Iterable[Link]) -> list[tuple[str, int, int]]:
    return [(link.key.topic, link.key.partition, n) for link in links for n in range(link.from_offset, link.to_offset)]


@attrs.define(eq=False)
class FakeTable(Table):
    """A table in memory for audits.

    `before_call` is called with the name of each method before the method runs, so that a test can change the table
    during an audit.
    """

    chains: dict[ChainKey, list[Link]] = attrs.field(factory=dict)
    rows: list[tuple[Any, Any, Any]] = attrs.field(factory=list)
    columns: Sequence[str] = ("topic", "partition", "offset")
    versions: dict[str, dict[ChainKey, Link]] = attrs.field(factory=dict)
    listed_leftovers: list[Leftover] = attrs.field(factory=list)
    """The leftovers that `leftovers` returns."""
    unprovable: dict[ChainKey, str] = attrs.field(factory=dict)
    """Chains whose head cannot be read, with the text of the BrokenChainError."""
    before_call: Callable[[str], None] = lambda method: None
    read_error: Exception | None = None
    remove_error: Exception | None = None
    may_land: bool = True
    lock: Path | None = None
    """The lock file of drivers, for a table that has one."""
    landings_per_job = 2
    needs_spark = False

    @property
    def name(self) -> str:
        return "fake:orders"

    @property
    def staging(self) -> Path:
        raise AssertionError("an audit stages nothing")

    def open(self, spark: Any) -> None:
        raise AssertionError("an audit lands no records")

    def open_unstaged(self, spark: Any) -> None:
        self.before_call("open")

    def driver_lock(self, spark: Any) -> Path | None:
        return self.lock

    def heads(self, spark: Any, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        self.before_call("heads")
        wanted = list(keys)
        for key in wanted:
            if key in self.unprovable:
                raise BrokenChainError(self.unprovable[key])
        return {key: self.chains[key][-1] for key in wanted if self.chains.get(key)}

    def links(self, spark: Any, key: ChainKey, since: int) -> Sequence[Link]:
        self.before_call("links")
        return [link for link in self.chains.get(key, []) if link.number >= since]

    def land(self, spark: Any, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        self.before_call("land")
        assert len(landings) <= self.landings_per_job
        for landing in landings:
            chain = self.chains[landing.link.key]
            if self.may_land and landing.link.number == chain[-1].number + 1:
                chain.append(landing.link)

    def keys(self, spark: Any) -> Sequence[ChainKey]:
        self.before_call("keys")
        return list(self.chains)

    def read(self, spark: Any, version: str | None = None) -> Any:
        raise AssertionError("this table is read without Spark")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        self.before_call("batches")
        if self.read_error is not None:
            raise self.read_error
        types = {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()}
        arrays = {
            name: pa.array([row[n] for row in self.rows], types[name])
            for n, name in enumerate(types)
            if name in self.columns
        }
        yield from pa.table(arrays).to_batches(max_chunksize=7)

    def heads_at(self, spark: Any, version: str) -> dict[ChainKey, Link]:
        if version not in self.versions:
            raise HandlerError(f"{self.name} has no version {version}")
        return self.versions[version]

    def leftovers(self, spark: Any) -> Sequence[Leftover]:
        self.before_call("leftovers")
        return list(self.listed_leftovers)

    def remove(self, spark: Any, leftover: Leftover) -> None:
        self.before_call(f"remove {leftover.name}")
        if self.remove_error is not None:
            raise self.remove_error
        self.listed_leftovers.remove(leftover)
