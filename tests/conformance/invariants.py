"""Invariants of a table, which hold after any fault of its writers. The functions raise AssertionError."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sarameya_handlers import ParquetTable
from sarameya_handlers.audit.facts import Facts
from sarameya_handlers.audit.verify.fact_collection import Audit, read_heads, table_facts
from sarameya_handlers.audit.verify.verdict import is_proved, judge
from sarameya_handlers.landing.directory.manifests import Manifests
from sarameya_handlers.landing.links import ChainKey, Kind, Link, check_chain
from sarameya_handlers.landing.stores.store import Store
from sarameya_handlers.spark.tables.table import Table
from tests.conformance.adoptions import AdoptedDelta
from tests.conformance.ledgers import LedgerTable

_COLUMNS = ["topic", "partition", "offset", "value"]


class Row(NamedTuple):
    """A row of the table, with the partition and offset of its record."""

    topic: str
    partition: int
    offset: int
    value: bytes


def rows_of(table: Table, spark: Any) -> list[Row]:
    """Return all rows that readers see, read by pyarrow where possible, else by Spark."""
    if isinstance(table, LedgerTable):
        return [Row(*row) for row in table.rows()]
    if isinstance(table, ParquetTable):
        return _rows_of_parquet(table.store)
    if isinstance(table, AdoptedDelta):
        return [row for name in table.files() for row in _read(table.store, name)]
    return _rows(table.read(spark).select(*_COLUMNS).toArrow())


def _rows_of_parquet(store: Store) -> list[Row]:
    """Return the rows of the files in the manifests. Plain readers must see exactly these files."""
    manifests = Manifests(store)
    links = [manifest for key in manifests.chains() for manifest in manifests.since(key, 1)]
    named = [file.name for manifest in links for file in manifest.files]
    present = [name for name in store.names("") if name.endswith(".parquet") and not name.startswith("_sarameya/")]
    assert sorted(named) == sorted(present), "there are the files that links name, each in its final place"
    rows: list[Row] = []
    for name in named:
        rows += _read(store, name)
    return rows


def _read(store: Store, name: str) -> list[Row]:
    with pq.ParquetFile(store.open(name)) as file:
        return _rows(file.read(columns=_COLUMNS))


def _rows(table: pa.Table) -> list[Row]:
    return [Row(*values) for values in zip(*(table[name].to_pylist() for name in _COLUMNS), strict=True)]


def chain_of(table: Table, spark: Any, key: ChainKey) -> list[Link]:
    """Return all links of a chain, which must begin with link 1 and have no gaps in numbers and offsets."""
    links = list(table.links(spark, key, 1))
    check_chain(links)
    assert not links or links[0].number == 1, f"{links[0]} is the first"
    return links


def prove_rows(table: Table, spark: Any, expected: Iterable[tuple[str, int, int]]) -> list[Row]:
    """Check that the table has each of these (topic, partition, offset) once, and no other rows. Return its rows."""
    rows = rows_of(table, spark)
    found, wanted = Counter(row[:3] for row in rows), Counter(expected)
    missing, surplus = wanted - found, found - wanted
    assert not missing, f"{missing.total()} of {wanted.total()} records were lost: {sorted(missing)[:5]} ..."
    assert not surplus, f"{surplus.total()} rows too many: {sorted(surplus)[:5]} ..."
    return rows


def prove_chain(table: Table, spark: Any, key: ChainKey, end: int) -> list[Link]:
    """Check that the chain covers the offsets [0, end) without gaps. Return its links."""
    links = chain_of(table, spark, key)
    assert links, f"{key} has no link"
    assert (links[0].from_offset, links[-1].to_offset) == (0, end), f"{key} covers {links[0]} to {links[-1]}"
    return links


def prove_winners(links: Iterable[Link], rows: Iterable[Row]) -> None:
    """Check that each link's rows were written by its own attempt, whose id is the value of these rows."""
    writers = {row.offset: row.value.decode() for row in rows}
    for link in links:
        found = {writers.get(offset) for offset in range(link.from_offset, link.to_offset)}
        assert found <= {link.attempt}, f"{link} by {link.attempt} holds rows of {found - {link.attempt}}"
        if link.kind is Kind.RECORDS and link.rows >= 0:
            assert link.rows == link.to_offset - link.from_offset, f"{link} has a count of {link.rows} rows"


def prove_audit(table: Table, spark: Any) -> None:
    """Verify a table as `sarameya verify` does without a cluster, if that command supports the table."""
    if isinstance(table, LedgerTable):
        return
    audit = Audit(table=table, by_spark=table.needs_spark)
    prove_facts(table_facts(spark, audit, read_heads(spark, table), now=0.0))


def prove_facts(facts: Facts) -> None:
    """Check that `sarameya verify` accepts a table with these facts."""
    findings = judge(facts)
    assert is_proved(findings), [finding for finding in findings if finding.prevents_proof]


def offsets(ends: Mapping[ChainKey, int]) -> list[tuple[str, int, int]]:
    """Return the (topic, partition, offset) of all records in logs that start at 0 and have these log ends.

    The logs must have no control records.
    """
    return [(key.topic, key.partition, offset) for key, end in ends.items() for offset in range(end)]
