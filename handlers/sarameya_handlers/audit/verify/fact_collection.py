"""Collects the facts of an audit, in an order in which members that continue to land cause no contradiction.

The order is: committed offsets, links, rows, links appended meanwhile, logs. So no committed offset is beyond the
links, no row beyond the links read after the rows, and no link beyond the end of its log.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from sarameya import HandlerError
from sarameya.service import Cluster, QuietSteps, Steps, counted
from sarameya_handlers.audit.cluster import ask_groups, ask_logs
from sarameya_handlers.audit.facts import ChainFacts, ClusterFacts, Counts, Facts, Span
from sarameya_handlers.audit.spark_thread import Run, without_spark
from sarameya_handlers.audit.verify.arrow_counting import count_batches
from sarameya_handlers.audit.verify.counting import count_frame, why_uncountable
from sarameya_handlers.audit.verify.lineage import LINEAGE
from sarameya_handlers.audit.verify.spans import spans_of
from sarameya_handlers.landing.directory.data_files import Unpublished
from sarameya_handlers.landing.errors import ChainError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.errors import cause_of
from sarameya_handlers.spark.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_POLLS = 20
_POLL_SECONDS = 0.1


@attrs.frozen(slots=True, kw_only=True)
class Audit:
    """Subject and options of an audit. If `place` is None, no cluster is read."""

    table: Table
    run: Run = without_spark
    place: Cluster | None = None
    counts_rows: bool = True
    by_spark: bool = False
    """True if `run` passes a session. Otherwise rows are counted by Arrow."""
    progress: Steps = attrs.field(factory=QuietSteps)


async def gather(audit: Audit, now: float) -> Facts:
    """Collect all facts.

    Raises:
        SarameyaError: The table cannot be read at all.
        Exception: Whatever Spark raises then.
    """
    table, run, place = audit.table, audit.run, audit.place
    audit.progress(f"{table.name}: looking for its chains")
    heads = await run(lambda spark: read_heads(spark, table))
    groups = {chain.head.origin.group for chain in heads if chain.head is not None}
    commits = await ask_groups(place, groups) if place else {}
    facts = await run(lambda spark: table_facts(spark, audit, heads, now))
    if place:
        audit.progress("reading the ends of the logs")
        logs = await ask_logs(place, [chain.last for chain in facts.chains if chain.last is not None])
        facts = attrs.evolve(facts, cluster=ClusterFacts(groups=commits, logs=logs))
    return facts


def table_facts(spark: SparkSession, audit: Audit, heads: Sequence[ChainFacts], now: float) -> Facts:
    """Collect the table's facts about chains whose heads `read_heads` has read. Blocking."""
    table = audit.table
    audit.progress(f"reading the links of {counted(len(heads), 'chain')}")
    chains = tuple(with_links(spark, table, heads))
    facts = Facts(table=table.name, forgets=table.forgets, chains=chains, now=now)
    facts = _with_counts(spark, audit, facts)
    # This raises if counting failed because Spark has died, and not because of the table.
    facts = attrs.evolve(facts, chains=tuple(with_later(spark, table, facts.chains)))
    facts = attrs.evolve(facts, unpublished=tuple(lasting_unpublished(spark, table)))
    try:
        return attrs.evolve(facts, leftovers=tuple(table.leftovers(spark)))
    except HandlerError as error:  # some storages cannot be listed from here
        return attrs.evolve(facts, unlisted=str(error))


def lasting_unpublished(spark: SparkSession, table: Table) -> list[Unpublished]:
    """Return files that stay unpublished for two seconds: a live process publishes at once."""
    found = list(table.unpublished(spark))
    for _ in range(_POLLS):
        if not found:
            break
        time.sleep(_POLL_SECONDS)
        still = {each.what for each in table.unpublished(spark)}
        found = [each for each in found if each.what in still]
    return found


# -- links, blocking ---------------------------------------------------------------------------------


def read_heads(spark: SparkSession, table: Table) -> list[ChainFacts]:
    """Return each chain with its head, or with the reason why it cannot be read."""
    keys = sorted(table.keys(spark))
    try:
        heads = table.heads(spark, keys)
    except ChainError:  # read one by one to find the broken one
        return [_with_head(spark, table, key) for key in keys]
    return [ChainFacts(key=key, head=heads.get(key)) for key in keys]


def _with_head(spark: SparkSession, table: Table, key: ChainKey) -> ChainFacts:
    try:
        return ChainFacts(key=key, head=table.heads(spark, [key]).get(key))
    except ChainError as error:
        return ChainFacts(key=key, head=None, problem=str(error))


def with_links(spark: SparkSession, table: Table, chains: Sequence[ChainFacts]) -> list[ChainFacts]:
    """Return the chains with their links, or with the reason why they cannot be read."""
    try:
        links = table.all_links(spark, [chain.key for chain in chains])
    except ChainError:  # read one by one to find the broken one
        return [_with_links(spark, table, chain) for chain in chains]
    return [attrs.evolve(chain, links=tuple(links.get(chain.key, ()))) for chain in chains]


def _with_links(spark: SparkSession, table: Table, chain: ChainFacts) -> ChainFacts:
    try:
        return attrs.evolve(chain, links=tuple(table.links(spark, chain.key, 1)))
    except ChainError as error:
        return attrs.evolve(chain, problem=chain.problem or str(error))


def with_later(spark: SparkSession, table: Table, chains: Iterable[ChainFacts]) -> list[ChainFacts]:
    """Return the chains with the links that were appended meanwhile, and chains that are new."""
    known = {chain.key: chain for chain in chains}
    now = {chain.key: chain for chain in read_heads(spark, table)}
    for key in sorted({*known, *now}):
        chain, head = known.get(key, ChainFacts(key=key, head=None)), now.get(key)
        last = chain.links[-1] if chain.links else None
        if not chain.problem and (head is None or last is None or head.head != last):
            known[key] = _with_later(spark, table, chain, last)
    return list(known.values())


def _with_later(spark: SparkSession, table: Table, chain: ChainFacts, last: Link | None) -> ChainFacts:
    try:
        found = tuple(table.links(spark, chain.key, last.number if last else 1))
    except ChainError as error:
        return attrs.evolve(chain, problem=str(error))
    if last is None:
        return attrs.evolve(chain, later=found)
    if not found or (found[0].number, found[0].attempt) != (last.number, last.attempt):
        return attrs.evolve(chain, problem=f"{last} is not there any more: the table was changed meanwhile")
    return attrs.evolve(chain, later=found[1:])


# -- rows, blocking ----------------------------------------------------------------------------------


def _with_counts(spark: SparkSession, audit: Audit, facts: Facts) -> Facts:
    if not audit.counts_rows:
        return attrs.evolve(facts, uncounted="--links-only")
    links = [link for chain in facts.chains for link in chain.links]
    # Spark reports no progress.
    total = None if audit.by_spark else sum(max(link.rows, 0) for link in links)
    audit.progress(f"counting rows, by {counted(len(links), 'link')}", total)
    spans = spans_of(facts.chains, forgets=facts.forgets).spans
    try:
        found = (_count_by_spark if audit.by_spark else _count_by_arrow)(spark, audit, spans)
    except HandlerError:
        if any(link.rows for link in links):
            raise
        found = Counts({})  # a table that has no rows yet may have no columns either
    except Exception as error:  # noqa: BLE001  Spark and Arrow raise many types for unreadable files
        return attrs.evolve(facts, unreadable=cause_of(error))
    if isinstance(found, str):
        return attrs.evolve(facts, uncounted=found)
    return attrs.evolve(facts, counts=found)


def _count_by_spark(spark: SparkSession, audit: Audit, spans: Sequence[Span]) -> Counts | str:
    frame = audit.table.read(spark)
    return why_uncountable(frame) or count_frame(spark, frame, spans)


def _count_by_arrow(spark: SparkSession, audit: Audit, spans: Sequence[Span]) -> Counts | str:
    return count_batches(_shown(audit.table.batches(LINEAGE), audit.progress), spans)


def _shown(batches: Iterable[pa.RecordBatch], progress: Steps) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        progress.update(rows)
