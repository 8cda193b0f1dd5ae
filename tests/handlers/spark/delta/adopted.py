"""Delta tables of delta-rs's, in which records are landed without Spark: made, landed in, and raced for.

`python -m tests.handlers.spark.delta.adopted ROOT WHICH LINKS` tries that many links of one chain, one after the other,
as one of several processes; each says in a line whose each of them is.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.delta.adopting import Adopter
from sarameya_handlers.spark.delta.chains import LAST, Found, search
from sarameya_handlers.spark.delta.commits import Mark
from sarameya_handlers.spark.delta.log import DeltaLog
from sarameya_handlers.spark.tables.table import Landing
from tests.handlers.spark.delta.kit import KEY, link

NO_SPARK: Any = None


def nullable(schema: pa.Schema) -> pa.Schema:
    """As Spark creates a table."""
    headers = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    fields = [pa.field(one.name, headers if one.name == "headers" else one.type) for one in schema]
    return pa.schema(fields)


def create(root: Path, *, schema: pa.Schema | None = None, **options: Any) -> Path:
    DeltaTable.create(root, schema=Schema.from_arrow(schema or nullable(kafka_schema())), **options)
    return root


def staged(root: Path, of: Link, **columns: list[Any]) -> Landing:
    """Records of this link's; of `columns` these values."""
    count = of.to_offset - of.from_offset
    values: Mapping[str, list[Any]] = {
        "key": [None] * count,
        "value": [of.attempt.encode()] * count,
        "topic": [of.key.topic] * count,
        "partition": [of.key.partition] * count,
        "offset": list(range(of.from_offset, of.to_offset)),
        "timestamp": [1_700_000_000_000_001 + number for number in range(count)],
        "timestampType": [0] * count,
        "headers": [None] * count,
        **columns,
    }
    path = root / "_sarameya" / f"{of.attempt}.parquet"
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(dict(values), schema=kafka_schema()), path)
    return Landing(link=of, staged=path, records=count)


def chain(root: Path, log: DeltaLog | None = None) -> Found:
    """What the log says of KEY's chain: of all links, or of the last one where `log` is an older reader."""
    reader = log or DeltaLog("unused")
    reader.is_at(root)
    return search(reader.commits(NO_SPARK), {KEY: LAST if log else 1})[KEY]


def main(root: Path, links: int) -> None:
    log, adopter = DeltaLog("unused"), Adopter(root)
    while True:
        known = chain(root, log)
        last = known.links[-1].number if known.links else 0
        if last >= links:
            return
        mine = link(last + 1, attempt=uuid4().hex)
        assert adopter.append(staged(root, mine), Mark(mine, known.seen, known.term))
        winner = next(one for one in reversed(chain(root).links) if one.number == mine.number)
        print(mine.number, mine.attempt, winner.attempt, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
