"""Offsets by policy or by time, for a consumer: where a log begins and ends, and where a time stands in it
(ListOffsets). Goes on asking until it is told; `net.log_offsets` has the asking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from sarameya.config import Config
from sarameya.error_codes import ErrorCode
from sarameya.errors import kafka_error
from sarameya.model import TopicPartition
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.log_offsets import LOG_END, LOG_START, NO_SUCH_OFFSET, ask_leaders
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.retries import Retries
from sarameya.observe import Observer
from sarameya.protocol.backoff import Backoff

_TIMESTAMP_OF = {"newest": LOG_END, "oldest": LOG_START}
"""The reset policies as ListOffsets has them."""

_FATAL = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})


class OffsetLookup:
    """Asks the leaders of partitions for offsets; follows them when they move."""

    def __init__(
        self, pool: BrokerPool, metadata: MetadataRefresher, config: Config, observer: Observer, backoff: Backoff
    ) -> None:
        self._pool = pool
        self._metadata = metadata
        self._config = config
        self._observer = observer
        self._backoff = backoff

    async def find(self, wanted: Mapping[TopicPartition, str | int]) -> dict[TopicPartition, int]:
        """The offset for each partition by its policy (`oldest` or `newest`), or of the first message at or after its
        time (milliseconds since 1970), NO_SUCH_OFFSET where every message is older.

        Retries until every one is known; bound it with a cancel scope. Raises TopicAuthorizationError.
        """
        found: dict[TopicPartition, int] = {}

        async def keep(some: Mapping[TopicPartition, int]) -> None:
            found.update(some)

        await self.find_each(wanted, keep)
        return found

    async def find_each(
        self,
        wanted: Mapping[TopicPartition, str | int],
        take: Callable[[Mapping[TopicPartition, int]], Awaitable[None]],
    ) -> None:
        """As `find`, for who does not want one partition to wait for another: `take` is given offsets as they are
        found, each once, before the others are asked for again."""
        left = dict(wanted)
        retries = Retries("offset lookup", self._backoff, self._observer)
        while left:
            found, cause = await self._find_once(left)
            if found:
                await take(found)
            left = {tp: at for tp, at in left.items() if tp not in found}
            if left:
                await retries.wait(cause)
                await self._metadata.refresh()

    async def _find_once(self, wanted: Mapping[TopicPartition, str | int]) -> tuple[dict[TopicPartition, int], str]:
        """What is found, and the reason why one is not."""
        found: dict[TopicPartition, int] = {}
        timestamps = {tp: _TIMESTAMP_OF[at] if isinstance(at, str) else at for tp, at in wanted.items()}
        isolation_level = self._config.isolation_level
        answers = await ask_leaders(self._pool, self._metadata.current, timestamps, isolation_level)
        missing = answers.unanswered
        for partition, code in answers.refused.items():
            if code in _FATAL:
                raise kafka_error(code, f"offset lookup of {partition}")
            missing[partition] = ErrorCode.describe(code)
        for partition, offset in answers.found.items():
            if offset < 0 and isinstance(wanted[partition], str):
                missing[partition] = "no offset in the answer"
            else:
                found[partition] = max(offset, NO_SUCH_OFFSET)
        return found, next((f"{partition}: {cause}" for partition, cause in missing.items()), "")
