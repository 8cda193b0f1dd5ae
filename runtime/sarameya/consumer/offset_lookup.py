"""Offset lookup by policy or by time (ListOffsets), for a consumer: log start, log end, offset of a timestamp.

Retries until the results are known; `net.log_offsets` sends the requests. Each leader has its own task, which also
retries. So a leader that hangs, or has moved, does not delay the partitions of other leaders.

Rules that are easily broken:

- For a timestamp the log end is requested first, so that records written meanwhile are not skipped. Test:
  `tests/group/test_offset_policies.py::test_message_written_during_a_look_up_is_not_skipped`.
- Each leader is retried on its own. Test:
  `tests/consumer/test_offset_lookup.py::test_hanging_broker_does_not_delay_other_partitions`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

import trio

from sarameya.config import Config, IsolationLevel
from sarameya.error_codes import ErrorCode
from sarameya.errors import SarameyaError, kafka_error
from sarameya.model import LogRange, TopicPartition
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.log_offsets import LOG_END, LOG_START, LogOffset, Wanted, ask_leader, by_leader
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.retries import Retries
from sarameya.observe import Observer
from sarameya.offset_policy import OffsetPolicy, timestamp_of
from sarameya.protocol.backoff import Backoff

Place: TypeAlias = OffsetPolicy | int
"""A policy (except `fail`, which has no offset), or a time in milliseconds since 1970."""

Found: TypeAlias = dict[TopicPartition, LogOffset]
OnFound: TypeAlias = Callable[[Mapping[TopicPartition, LogOffset]], Awaitable[None]]

_FATAL = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})


class Lookup(Protocol):
    """Interface of `OffsetLookup`."""

    async def find(self, wanted: Mapping[TopicPartition, Place]) -> Found: ...

    async def find_each(self, wanted: Mapping[TopicPartition, Place], on_found: OnFound) -> None: ...

    async def log_range(self, partition: TopicPartition) -> LogRange: ...


class OffsetLookup:
    """Lookup of offsets with the leaders of partitions. Follows leaders that move.

    `wall_clock` returns the time, in seconds since 1970, from which durations count back: message timestamps are wall
    time.
    """

    def __init__(
        self,
        pool: BrokerPool,
        metadata: MetadataRefresher,
        config: Config,
        observer: Observer,
        backoff: Backoff,
        wall_clock: Callable[[], float],
    ) -> None:
        self._pool = pool
        self._metadata = metadata
        self._config = config
        self._observer = observer
        self._backoff = backoff
        self._wall_clock = wall_clock

    async def find(self, wanted: Mapping[TopicPartition, Place]) -> Found:
        """Return the offset of each place: an end of the log, or the first message at or after a time.

        If every message is older than the time, the result is the log's end as it was before the lookup. Under
        `read_committed` a log ends at its first open transaction. Retries until all are known; bound it with a cancel
        scope.

        Raises:
            TopicAuthorizationError: Access to a topic is denied.
            KafkaError: A log is too old to have timestamps.
            RetriesExhaustedError: The user's bounds for retries are reached.
        """
        return await self._find(wanted, self._config.isolation_level)

    async def find_each(self, wanted: Mapping[TopicPartition, Place], on_found: OnFound) -> None:
        """Look up like `find`, and pass the offsets to `on_found` as they are found, each once.

        No partition waits for another. The calls of `on_found` do not overlap, and its exception ends the search.
        """
        await self._search(wanted, on_found, self._config.isolation_level)

    async def log_ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LogRange]:
        """Return start and end of these logs, including open transactions. Retries and raises like `find`."""
        # The start is requested first: both ends only move forward, so it cannot be after the end.
        starts = await self._find(dict.fromkeys(partitions, "oldest"), "read_uncommitted")
        ends = await self._find(dict.fromkeys(starts, "newest"), "read_uncommitted")
        return {partition: LogRange(start.offset, ends[partition].offset) for partition, start in starts.items()}

    async def log_range(self, partition: TopicPartition) -> LogRange:
        """Return `log_ranges` of one partition."""
        return (await self.log_ranges([partition]))[partition]

    async def _find(self, wanted: Mapping[TopicPartition, Place], isolation: IsolationLevel) -> Found:
        found: Found = {}

        async def keep(some: Mapping[TopicPartition, LogOffset]) -> None:
            found.update(some)

        await self._search(wanted, keep, isolation)
        return {partition: found[partition] for partition in wanted}

    async def _search(
        self, wanted: Mapping[TopicPartition, Place], on_found: OnFound, isolation: IsolationLevel
    ) -> None:
        now = self._wall_clock()
        times = {partition: _timestamp(place, now) for partition, place in wanted.items()}
        failure: SarameyaError | None = None
        async with trio.open_nursery() as nursery:
            search = _Search(self._pool, self._metadata, isolation, times, nursery)
            search.start(Retries("offset lookup", self._backoff, self._observer, kind="offset_lookup"))
            try:
                await search.pass_results(on_found)
            except SarameyaError as error:
                failure = error  # raised here, it would be wrapped in an exception group by the nursery
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure


def _timestamp(place: Place, now: float) -> int:
    match place:
        case "oldest":
            return LOG_START
        case "newest":
            return LOG_END
        case datetime() | timedelta():
            return timestamp_of(place, now)
        case int():
            return place
    raise AssertionError(f"{place!r} is not a place in a log")


class _Search:
    """A lookup in progress. Its tasks put results and errors into a channel."""

    def __init__(
        self,
        pool: BrokerPool,
        metadata: MetadataRefresher,
        isolation: IsolationLevel,
        times: Mapping[TopicPartition, int],
        nursery: trio.Nursery,
    ) -> None:
        self._pool = pool
        self._metadata = metadata
        self._isolation = isolation
        self._times = times
        self._ends: Found = {}
        self._nursery = nursery
        self._results, self._found = trio.open_memory_channel[Found | SarameyaError](math.inf)

    def start(self, retries: Retries) -> None:
        """Start the tasks."""
        # For a time the log end is requested first: records written between the two responses are not skipped.
        first = {partition: min(at, LOG_END) for partition, at in self._times.items()}
        self._ask(first, retries)

    async def pass_results(self, on_found: OnFound) -> None:
        """Pass all results to `on_found`, as many at a time as there are.

        Raises:
            SarameyaError: The error of a task.
        """
        left = len(self._times)
        while left:
            found = _unwrap(await self._found.receive())
            while self._found.statistics().current_buffer_used:
                found |= _unwrap(self._found.receive_nowait())
            left -= len(found)
            await on_found(found)

    def _ask(self, wanted: Mapping[TopicPartition, int], retries: Retries) -> None:
        for leader, of_leader in by_leader(self._metadata.current, wanted).items():
            # Copies: each leader has its own count of failures.
            self._nursery.start_soon(self._ask_leader, leader, of_leader, copy.copy(retries))

    async def _ask_leader(self, leader: int | None, wanted: Wanted, retries: Retries) -> None:
        answers = await ask_leader(self._pool, self._metadata.current, leader, wanted, self._isolation)
        missing = answers.unanswered
        for partition, code in answers.refused.items():
            if code in _FATAL:
                self._results.send_nowait(kafka_error(code, f"offset lookup of {partition}"))
            missing[partition] = ErrorCode.describe(code)
        by_time = self._sort(wanted, answers.found, missing)
        if by_time:
            self._nursery.start_soon(self._ask_leader, leader, by_time, copy.copy(retries))
        if missing:
            await self._retry({partition: wanted[partition] for partition in missing}, missing, retries)

    def _sort(self, wanted: Wanted, found: Found, missing: dict[TopicPartition, str]) -> Wanted:
        """Put final results into the channel, and add partitions without an offset to `missing`.

        Return the lookups by time that follow, now that the log's end is known.
        """
        known: Found = {}
        by_time: Wanted = {}
        for partition, place in found.items():
            if wanted[partition] >= 0:
                known[partition] = place if place.offset >= 0 else self._ends[partition]
            elif place.offset < 0:
                missing[partition] = "no offset in the response"
            elif self._times[partition] >= 0:
                self._ends[partition], by_time[partition] = place, self._times[partition]
            else:
                known[partition] = place
        if known:
            self._results.send_nowait(known)
        return by_time

    async def _retry(self, wanted: Wanted, causes: Mapping[TopicPartition, str], retries: Retries) -> None:
        partition, cause = next(iter(causes.items()))
        try:
            await retries.wait(f"{partition}: {cause}")
        except SarameyaError as error:
            self._results.send_nowait(error)
            return
        await self._metadata.refresh()
        self._ask(wanted, retries)


def _unwrap(result: Found | SarameyaError) -> Found:
    if isinstance(result, SarameyaError):
        raise result
    return result
