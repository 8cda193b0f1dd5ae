"""Row counts by span, computed by Spark: one pass over the table's lineage columns, for any number of links. Blocking.

The query joins rows to links by bins of offsets. A bin is as wide as the partition's average link, so that Spark
compares each row with one or two links, not with all of its partition's. It counts distinct offsets with bitmaps: the
shuffle then carries one bit for each offset, and takes a fifth of the time of `count(distinct offset)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sarameya_handlers.audit.facts import BEYOND, FORGOTTEN, Count, Counts, Span, Stray
from sarameya_handlers.audit.verify.lineage import LINEAGE, why_unknown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_NONE = -1
"""Span index of a row outside of all spans."""


def why_uncountable(frame: DataFrame) -> str:
    """Return why these rows do not identify their records; empty if they do."""
    types = {field.name: field.dataType.typeName() for field in frame.schema.fields}
    numbers = ("integer", "long", "short", "byte")
    allowed = {"topic": ("string", "varchar", "char"), "partition": numbers, "offset": numbers}
    return why_unknown({name: types[name] in allowed[name] for name in LINEAGE if name in types})


def count_frame(spark: SparkSession, frame: DataFrame, spans: Sequence[Span]) -> Counts:
    """Return the counts of a DataFrame that passes `why_uncountable`."""
    found: dict[Span, Count] = {}
    strays: list[Stray] = []
    for row in _count_spans(spark, frame, spans).to_pylist():
        if row["span"] != _NONE:
            found[spans[row["span"]]] = Count(row["rows"], row["offsets"], row["first"], row["last"])
        else:
            strays.append(Stray(row["topic"], row["partition"], row["rows"], row["first"], row["last"]))
    strays.sort(key=lambda stray: (stray.topic is None, stray.topic or "", stray.partition or 0))
    return Counts(found, strays)


def _count_spans(spark: SparkSession, frame: DataFrame, spans: Sequence[Span]) -> pa.Table:
    """Return one row for each span, and one for each partition's rows outside of all spans."""
    return spark.sql(
        _QUERY,
        lineage=frame.select(*LINEAGE),
        widths=_frame(spark, _widths_table(spans)),
        bins=_frame(spark, _bins_table(spans)),
        wide=_frame(spark, _wide_table(spans)),
    ).toArrow()


_QUERY = f"""
with whole as (
    select
        case when lacking then null else topic end as topic,
        case when lacking then null else partition end as partition,
        case when lacking then null else offset end as offset
    from (
        select
            cast(topic as string) as topic, cast(partition as bigint) as partition, cast(offset as bigint) as offset,
            topic is null or partition is null or offset is null as lacking
        from {{lineage}}
    )
),
placed as (
    select /*+ broadcast(widths, bins, wide) */
        whole.topic, whole.partition, whole.offset, coalesce(bins.span, wide.span, {_NONE}) as span
    from whole
    left join {{widths}} as widths
        on whole.topic = widths.topic and whole.partition = widths.partition
    left join {{bins}} as bins
        on whole.topic = bins.topic and whole.partition = bins.partition and whole.offset div widths.width = bins.bin
        and whole.offset >= bins.start and whole.offset < bins.stop
    left join {{wide}} as wide
        on whole.topic = wide.topic and whole.partition = wide.partition
        and whole.offset >= wide.start and whole.offset < wide.stop
),
bitmaps as (
    select
        span, bitmap_bucket_number(offset) as bucket, topic, partition,
        count(*) as rows, bitmap_construct_agg(bitmap_bit_position(offset)) as bits,
        min(offset) as first, max(offset) as last
    from placed
    group by span, bucket, topic, partition
)
select
    topic, partition, span,
    sum(rows) as rows, sum(bitmap_count(bits)) as offsets, min(first) as first, max(last) as last
from bitmaps
group by topic, partition, span
"""
"""The rows of a table by span. A row that lacks one of the lineage columns counts as one without any of them."""


def _is_wide(span: Span) -> bool:
    """Return whether the span may have any length. Such spans are few, and are not put into bins."""
    return span.number in (BEYOND, FORGOTTEN)


def _widths(spans: Iterable[Span]) -> dict[tuple[str, int], int]:
    """Return the width of each partition's bins: its average link, so there are at most twice as many bins as links."""
    lengths: dict[tuple[str, int], list[int]] = {}
    for span in spans:
        of_partition = lengths.setdefault((span.topic, span.partition), [])
        if not _is_wide(span):
            of_partition.append(span.stop - span.start)
    return {key: max(sum(found) // len(found), 1) if found else 1 for key, found in lengths.items()}


def _widths_table(spans: Iterable[Span]) -> pa.Table:
    rows = [(topic, partition, width) for (topic, partition), width in _widths(spans).items()]
    return _table(("topic", "partition", "width"), rows)


def _wide_table(spans: Iterable[Span]) -> pa.Table:
    rows = [
        (span.topic, span.partition, span.start, span.stop, index) for index, span in enumerate(spans) if _is_wide(span)
    ]
    return _table(("topic", "partition", "start", "stop", "span"), rows)


def _bins_table(spans: Sequence[Span]) -> pa.Table:
    widths = _widths(spans)
    rows = [
        (span.topic, span.partition, number, span.start, span.stop, index)
        for index, span in enumerate(spans)
        if not _is_wide(span)
        for width in [widths[span.topic, span.partition]]
        for number in range(span.start // width, (span.stop - 1) // width + 1)
    ]
    return _table(("topic", "partition", "bin", "start", "stop", "span"), rows)


def _table(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Return a table whose first column is text; the others are numbers."""
    import pyarrow as pa

    types = [pa.string(), *[pa.int64()] * (len(names) - 1)]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], names=list(names))


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    # Spark cannot infer the columns of a table without rows.
    first, *others = table.schema.names
    return spark.createDataFrame(table, ", ".join([f"{first} string", *(f"{name} bigint" for name in others)]))
