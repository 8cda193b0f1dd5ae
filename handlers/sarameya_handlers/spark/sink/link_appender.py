"""Appender of a partition's links: repeats attempts until the table has the link, from this owner or another.

The links in the table decide the outcome of an attempt (`Chain.settle`). Records that cannot be written become dead
letters. partition_lander.py proposes the links, and marks them afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from math import inf

import attrs
import trio

from sarameya import Claim, DeadLettered, Event, Landed, LandingFailed, LandingStarted, Session
from sarameya_handlers.landing.chain import Chain, Outcome, Settled
from sarameya_handlers.landing.dead_letters.letters import DeadLetterError
from sarameya_handlers.landing.errors import ChainError
from sarameya_handlers.landing.links import Kind, Link
from sarameya_handlers.landing.sizing import Sizing
from sarameya_handlers.spark.error_sources import ErrorSource, passes, source_of
from sarameya_handlers.spark.errors import SparkGoneError, cause_of
from sarameya_handlers.spark.poison.poison_search import PoisonError, dead_letters
from sarameya_handlers.spark.sink.buffer import CollectedBatch
from sarameya_handlers.spark.sink.flush_scheduler import FlushResult, FlushScheduler
from sarameya_handlers.spark.sink.retry import FlushRetry
from sarameya_handlers.spark.sink.settings import SinkSettings
from sarameya_handlers.spark.tables.table import Landing, PendingLink, Phase

logger = logging.getLogger("sarameya.spark")


class LeftToNextOwnerError(Exception):
    """Other members own the partition, or will soon. They land the records that have not landed."""


class LinkAppender:
    """Appends the links of one partition. `ended` is set when its claim has ended."""

    def __init__(
        self,
        session: Session,
        claim: Claim,
        chain: Chain,
        scheduler: FlushScheduler,
        settings: SinkSettings,
        sizing: Sizing,
        ended: trio.Event,
    ) -> None:
        self._session = session
        self._claim = claim
        self._chain = chain
        self._scheduler = scheduler
        self._settings = settings
        self._sizing = sizing
        self._ended = ended

    async def append(self, propose: Callable[[CollectedBatch | None], Link], collected: CollectedBatch | None) -> None:
        """Append the next link, unless another owner does so first.

        Args:
            propose: Makes the next link, of these records.
            collected: The link's records; None for a link without records.

        Raises:
            LeftToNextOwnerError: The next owner has to land the records.
            LandingError: Attempts have failed for too long, or with an error that does not pass.
            PoisonError: Some records cannot be written, and no place for dead letters is set.
        """
        retry = self._retry(self._settings.retry_for)
        is_alone = was_last_attempt = False
        while True:
            if self._session.is_lost:
                raise LeftToNextOwnerError
            link = propose(collected)
            pending = PendingLink(link, collected.table if collected and collected.rows else None, is_alone)
            since = link.number - 1 or 1
            self._notify(link, LandingStarted)
            result = await self._scheduler.append(pending, since)
            links = await self._links(link, since, result, retry)
            self._scheduler.report_requests(self._session)
            settled = self._settle(links)
            self._settings.on_phase(Phase.SETTLED, [Landing(link=link, staged=None)])
            if settled.outcome is not Outcome.ABSENT:
                if settled.outcome is Outcome.LANDED and settled.link and collected:
                    self._sizing.add_flush(collected.size_bytes, settled.link.size_bytes)
                self._landed(link, settled.outcome, settled.link, result)
                return
            if self._session.is_lost:
                raise LeftToNextOwnerError
            if result.was_shared and _may_be_other_partitions(result.error):
                is_alone = True
                continue
            error = result.error
            self._notify(link, partial(LandingFailed, cause=cause_of(error) if error else "the table does not have it"))
            if collected is not None and collected.rows and _may_be_poison(error):
                try:
                    remaining = await self._remove_poison(pending, collected)
                except Exception as raised:
                    if not (passes(raised) or self._settings.waits_for_remedy):
                        raise
                    error = raised  # the search is repeated after the next failure
                else:
                    if remaining is not collected:
                        collected = remaining
                        continue
            if was_last_attempt:
                raise LeftToNextOwnerError
            await retry.wait(f"{link} did not land", error)
            # After a revocation one more attempt is made, if time allows; then the records are left to the next owner.
            was_last_attempt = self._ended.is_set()

    def _retry(self, time_limit: float = inf) -> FlushRetry:
        return FlushRetry(self._ended, time_limit, self._claim.report, is_limited=not self._settings.waits_for_remedy)

    async def _links(self, link: Link, since: int, result: FlushResult, retry: FlushRetry) -> Sequence[Link]:
        """Return the chain's links after an attempt. Retries until they can be read. Raises LandingError."""
        while result.links is None:
            is_other_chain = result.was_shared and result.error is not None and not passes(result.error)
            if not is_other_chain:  # otherwise the read of another partition's chain failed: read this one at once
                await retry.wait(f"{link}: its outcome is unknown", result.error)
            result = await self._scheduler.find_links(link.key, since)
        return result.links

    def _settle(self, links: Sequence[Link]) -> Settled:
        """Return the outcome of the attempt according to the table's links. Raises ChainError, LeftToNextOwnerError."""
        try:
            return self._chain.settle(links)
        except ChainError:
            if self._session.is_lost:
                raise LeftToNextOwnerError from None  # the next owner finds the same error
            raise

    async def _remove_poison(self, pending: PendingLink, collected: CollectedBatch) -> CollectedBatch:
        """Write bad records as dead letters, and return the others. If none is bad, return the same object.

        Raises:
            LandingError: The cause of the failure is not a record.
            PoisonError: No place for dead letters is set.
        """
        poison = await self._scheduler.find_poison(pending)
        if not poison.bad:
            return collected
        if self._settings.dead_letters is None:
            raise PoisonError.of(pending, poison)
        letters = dead_letters(pending, poison)
        retry = self._retry()
        while True:
            try:
                await self._settings.dead_letters.write(pending.link, letters)
                break
            except DeadLetterError as error:
                await retry.wait(
                    f"{pending.link}: cannot write {len(letters)} dead letters; the partition waits", error
                )
        name = self._settings.dead_letters.name
        self._session.notify(DeadLettered(partition=self._claim.topic_partition, count=len(letters), place=name))
        logger.warning(
            "%s: %d records became dead letters in %s, the first at offset %s: %s",
            pending.link.key.topic_partition,
            len(letters),
            name,
            letters[0].offset,
            letters[0].error,
        )
        return attrs.evolve(
            collected,
            table=poison.kept if poison.kept.num_rows else None,
            dead_letters=collected.dead_letters + len(letters),
        )

    def _landed(self, link: Link, outcome: Outcome, winner: Link | None, result: FlushResult) -> None:
        if outcome is Outcome.LANDED:
            assert winner is not None
            logger.info(
                "%s: %s written to %s in %.2f s",
                winner.key.topic_partition,
                _content_of(winner),
                self._scheduler.table_name,
                result.seconds,
            )
            self._notify(
                winner, partial(Landed, rows=winner.rows, size_bytes=winner.size_bytes, seconds=result.seconds)
            )
            self._scheduler.warn_of_growth(self._session)
        else:
            logger.warning("%s: another owner has appended %s first", link, winner)

    def _notify(self, link: Link, event: Callable[..., Event]) -> None:
        """Notify observers, if the link has records. Links that only record offsets have no such events."""
        if link.kind is Kind.RECORDS:
            offsets = {"from_offset": link.from_offset, "to_offset": link.to_offset}
            self._session.notify(event(partition=link.key.topic_partition, **offsets))


def _content_of(link: Link) -> str:
    """Describe the rows and offsets of a link in the table."""
    match link.kind:
        case Kind.RESTATED:
            return f"head (offset {link.to_offset})"
        case Kind.GAP:
            content = "a gap"
        case _:
            content = f"{link.rows} rows" if link.rows >= 0 else "rows"
    return f"{content} (offsets {link.from_offset}-{link.to_offset - 1})"


def _may_be_other_partitions(error: Exception | None) -> bool:
    """Return whether a flush of several partitions may have failed because of one of them.

    A registry may refuse one partition's schema; its rows may exhaust the memory, or kill Spark. If Spark died before
    the flush began, no partition has caused that.
    """
    return error is not None and not (isinstance(error, SparkGoneError) and not error.begun)


def _may_be_poison(error: Exception | None) -> bool:
    return error is not None and source_of(error) in (ErrorSource.RECORD, ErrorSource.UNKNOWN)
