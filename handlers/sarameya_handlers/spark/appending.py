"""One link on its way into a partition's chain: tried until it is there, ours or somebody else's.

What has become of a try is what the table says (`Chain.settle`). Records that Spark can make nothing of are set aside
on the way. What the partition makes of it, once it is there, is `partition.py`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial

import attrs
import trio

from sarameya import Claim, DeadLettered, Event, Landed, LandingFailed, LandingStarted, Session
from sarameya_handlers.landing.chain import Chain, Outcome, Settled
from sarameya_handlers.landing.dead_letters import DeadLetterError
from sarameya_handlers.landing.errors import ChainError
from sarameya_handlers.landing.links import Kind, Link
from sarameya_handlers.landing.sizing import Sizing
from sarameya_handlers.spark.buffer import Collected
from sarameya_handlers.spark.error_sources import ErrorSource, passes, source_of
from sarameya_handlers.spark.errors import SparkGoneError, cause_of
from sarameya_handlers.spark.lander import Lander, Result
from sarameya_handlers.spark.landing import Try
from sarameya_handlers.spark.poison.poison_search import PoisonError, dead_letters
from sarameya_handlers.spark.retry import Retry
from sarameya_handlers.spark.tables.table import Landing, Phase
from sarameya_handlers.spark.terms import Terms

logger = logging.getLogger("sarameya.spark")


class LeftError(Exception):
    """Others own the partition, or will soon: they land what has not landed."""


class Appending:
    """One partition's. `ended` is set once its claim has."""

    def __init__(
        self,
        session: Session,
        claim: Claim,
        chain: Chain,
        lander: Lander,
        terms: Terms,
        sizing: Sizing,
        ended: trio.Event,
    ) -> None:
        self._session = session
        self._claim = claim
        self._chain = chain
        self._lander = lander
        self._terms = terms
        self._sizing = sizing
        self._ended = ended

    async def append(self, propose: Callable[[], Link], collected: Collected | None) -> None:
        """Have the next link in the table, by us or somebody else: `propose` makes one, of what is `collected` if it
        has rows. Raises LeftError where it is for the next owner to do, LandingError, PoisonError."""
        retry = Retry(self._ended, self._terms.retry_for, self._claim.report)
        is_alone = was_hurried = False
        while True:
            if self._session.is_lost:
                raise LeftError
            link = propose()
            one = Try(link, collected.table if collected else None, is_alone)
            since = link.number - 1 or 1
            self._tell_of(link, LandingStarted)
            result = await self._lander.land(one, since)
            links = await self._links(link, since, result, retry)
            settled = self._settle(links)
            self._terms.on_phase(Phase.SETTLED, [Landing(link=link, staged=None)])
            if settled.outcome is not Outcome.ABSENT:
                if settled.outcome is Outcome.LANDED and settled.link and collected:
                    self._sizing.landed(collected.size_bytes, settled.link.size_bytes)
                self._landed(link, settled.outcome, settled.link, result)
                return
            if self._session.is_lost:
                raise LeftError
            if result.was_shared and _may_be_anothers(result.error):
                is_alone = True
                continue
            error = result.error
            self._tell_of(link, partial(LandingFailed, cause=cause_of(error) if error else "the table lacks it"))
            if collected is not None and collected.table is not None and _may_be_poison(error):
                try:
                    without = await self._without_poison(one, collected)
                except Exception as raised:
                    if not passes(raised):
                        raise
                    error = raised  # whether it is any record's fault is found out the next time
                else:
                    if without is not collected:
                        collected = without
                        continue
            if was_hurried:
                raise LeftError
            await retry.wait(f"{link} did not land", error)
            # What is given up is tried once more, in what time there is; then it is for the next owner.
            was_hurried = self._ended.is_set()

    async def _links(self, link: Link, since: int, result: Result, retry: Retry) -> Sequence[Link]:
        """Return the chain's links after a try; wait until they can be looked up. Raises LandingError."""
        while result.links is None:
            is_anothers = result.was_shared and result.error is not None and not passes(result.error)
            if not is_anothers:  # not the look-up of another's chain
                await retry.wait(f"{link}: its outcome is unknown", result.error)
            result = await self._lander.find(link.key, since)
        return result.links

    def _settle(self, links: Sequence[Link]) -> Settled:
        """Raises ChainError, LeftError."""
        try:
            return self._chain.settle(links)
        except ChainError:
            if self._session.is_lost:
                raise LeftError from None  # it is for the next owner, who has found it by now
            raise

    async def _without_poison(self, one: Try, collected: Collected) -> Collected:
        """What is left once the records that Spark can make nothing of are dead letters; the same where there are none.
        Raises LandingError where that is no records' fault, PoisonError where there is no place for them."""
        poison = await self._lander.find_poison(one)
        if not poison.bad:
            return collected
        if self._terms.dead_letters is None:
            raise PoisonError.of(one, poison)
        letters = dead_letters(one, poison)
        retry = Retry(self._ended, report=self._claim.report)
        while True:
            try:
                await self._terms.dead_letters.write(one.link, letters)
                break
            except DeadLetterError as error:
                await retry.wait(f"{one.link}: cannot write {len(letters)} dead letters; the partition waits", error)
        name = self._terms.dead_letters.name
        self._session.tell(DeadLettered(partition=self._claim.topic_partition, count=len(letters), place=name))
        logger.warning(
            "%s: %d records became dead letters in %s, the first at offset %s: %s",
            one.link.key.topic_partition,
            len(letters),
            name,
            letters[0].offset,
            letters[0].error,
        )
        return attrs.evolve(collected, table=poison.kept if poison.kept.num_rows else None)

    def _landed(self, link: Link, outcome: Outcome, winner: Link | None, result: Result) -> None:
        if outcome is Outcome.LANDED:
            assert winner is not None
            logger.info("%s in %.2f s", _written(winner, self._lander.table_name), result.seconds)
            self._tell_of(
                winner, partial(Landed, rows=winner.rows, size_bytes=winner.size_bytes, seconds=result.seconds)
            )
            self._lander.warn_of_growth(self._session)
        else:
            logger.warning("%s: another owner was first, with %s", link, winner)

    def _tell_of(self, link: Link, event: Callable[..., Event]) -> None:
        """Tell observers of what is about a link's records; what says something of offsets only is no landing."""
        if link.kind is Kind.RECORDS:
            offsets = {"from_offset": link.from_offset, "to_offset": link.to_offset}
            self._session.tell(event(partition=link.key.topic_partition, **offsets))


def _written(link: Link, table: str) -> str:
    """Return the link as a log line: partition, rows, offsets and table."""
    partition, offsets = link.key.topic_partition, f"offsets {link.from_offset}-{link.to_offset - 1}"
    match link.kind:
        case Kind.RECORDS:
            rows = f"{link.rows} rows ({offsets})" if link.rows >= 0 else offsets
            return f"{partition}: {rows} written to {table}"
        case Kind.GAP:
            return f"{partition}: {offsets} left out of {table} ({link.reason}), recorded"
        case Kind.RESTATED:
            return f"{partition}: the last link written again to {table}"


def _may_be_anothers(error: Exception | None) -> bool:
    """Return whether a flush of several partitions may have failed because of one of them.

    A registry may refuse the schema of one, and the rows of one may take all memory, or Spark may die of them. A Spark
    that was away before the flush began is nobody's fault.
    """
    return error is not None and not (isinstance(error, SparkGoneError) and not error.begun)


def _may_be_poison(error: Exception | None) -> bool:
    return error is not None and source_of(error) in (ErrorSource.RECORD, ErrorSource.UNKNOWN)
