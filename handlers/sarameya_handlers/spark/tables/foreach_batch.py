"""Landing by a callback: `foreach_batch(frame, batch_id, link)` stores the rows in any way.

    exactly once      with a `Ledger`: in the transaction with the rows' effect, the callback writes the link into the
                      ledger, whose key (sink, topic, partition, number) is unique. A second attempt to write the same
                      number fails, and its transaction is rolled back.
    at least once     without a ledger: only Kafka's commits record what has landed. A member that dies between its
                      callback and its commit, or wakes when others own its partitions, repeats its batch.

In both cases a repeated batch has the same id. Its records may differ, because a batch ends with the last record that
had arrived when the batch was due. A callback that replaces everything written under a batch id, instead of adding to
it, can be repeated without harm, except by members that wake too late.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from sarameya import HandlerError, SarameyaError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.errors import LandingError, directory_error
from sarameya_handlers.spark.tables.staged_records import require_readable
from sarameya_handlers.spark.tables.staging import Staging
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Leftover, Phase, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("sarameya.spark")

Callback = Callable[["DataFrame", str, Link], None]
"""Function that is called with the rows of one link, its batch id, and the link; in worker threads, concurrently."""


class Ledger(Protocol):
    """Storage for links, written together with their rows' effect. All methods block, and are called in threads.

    It must keep the last link of each chain. Its key must be unique: if the same number of a chain is appended twice,
    the second append fails.
    """

    def heads(self, keys: Iterable[ChainKey]) -> Mapping[ChainKey, Link]:
        """Return the last link of each of these chains that has one. Called without chains at the start, as a test."""

    def links(self, key: ChainKey, since: int) -> Sequence[Link]:
        """Return the chain's links from number `since` on, in order."""

    def append(self, link: Link) -> None:
        """Store a link without rows, in its own transaction. Raises if the chain has a link with this number."""


def batch_id(link: Link) -> str:
    """Return `sink/topic-partition/number`: the same for each attempt to append the link."""
    return f"{link.key}/{link.number}"


class ForeachBatch(Table):
    """Lands by calling `foreach_batch(frame, batch_id, link)`: exactly once with a `ledger`, else at least once.

        def foreach_batch(frame, batch_id, link):
            totals = frame.groupBy("item").count().collect()
            with database.begin() as transaction:
                add_up(transaction, totals)
                ledger.record(transaction, link)        # raises if the ledger has the link already

    `frame` has the rows of one partition, after the sink's transform. The callback's work must be complete when it
    returns. If it raises, the attempt has failed. Rows that Spark's own tasks write are not part of the callback's
    transaction: write them to a place named after `link.attempt`, and use this place in the transaction.

    Args:
        foreach_batch: The callback.
        staging: A directory that all of Spark's machines have mounted, or a URL of an object store.
        ledger: Storage for links; None for at least once.
    """

    def __init__(
        self, foreach_batch: Callback, *, staging: str | os.PathLike[str], ledger: Ledger | None = None
    ) -> None:
        self._foreach_batch = foreach_batch
        self._ledger = ledger
        self._staging = Staging.at(staging)
        self._links: dict[ChainKey, list[Link]] = {}
        """Without a ledger: the last links of each chain, from Kafka's commit and from this process."""
        self.remembers = ledger is not None

    def __repr__(self) -> str:
        return f"ForeachBatch({self._callback_name})"

    @property
    def _callback_name(self) -> str:
        function = self._foreach_batch
        return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"

    @property
    def name(self) -> str:
        return f"foreach_batch:{self._callback_name} ({'exactly' if self._ledger else 'at least'} once)"

    @property
    def staging(self) -> Staging:
        return self._staging

    def open(self, spark: SparkSession) -> None:
        try:
            self._staging.make()
        except OSError as error:
            problem = f"{self.name}: cannot stage in {self._staging}"
            raise directory_error(problem, error, "give another directory (staging)") from error
        if self.needs_spark:
            self._staging.open(spark)
        if self._ledger is None:
            logger.warning(
                "%s: without a ledger a batch is repeated when a member dies before its commit, or wakes too late",
                self.name,
            )
            return
        try:
            self._ledger.heads([])
        except SarameyaError:
            raise
        except Exception as error:
            raise LandingError(f"{self.name}: the ledger cannot be read: {error}") from error

    def recall(self, head: Link) -> None:
        self._links[head.key] = [head]

    def heads(self, spark: SparkSession, keys: Iterable[ChainKey]) -> dict[ChainKey, Link]:
        if self._ledger is not None:
            return dict(self._ledger.heads(list(keys)))
        for key in keys:
            # Another member may have landed meanwhile: only Kafka's commit counts.
            self._links.pop(key, None)
        return {}

    def links(self, spark: SparkSession, key: ChainKey, since: int) -> Sequence[Link]:
        if self._ledger is not None:
            return self._ledger.links(key, since)
        return [link for link in self._links.get(key, ()) if link.number >= since]

    def land(self, spark: SparkSession, landings: Sequence[Landing], shape: Shape, checkpoint: Checkpoint) -> None:
        for landing in landings:
            link = landing.link
            if self._ledger is not None and self._ledger.links(link.key, link.number):
                continue  # another owner has appended it
            if self.needs_spark:
                require_readable(spark, landing)  # by a job of its own: the callback may read the records at any time
            frame = shape.frame(spark, landing) if landing.staged is not None else None
            checkpoint(Phase.READY, [landing])
            if frame is not None:
                self._foreach_batch(frame, batch_id(link), link)
            elif self._ledger is not None:
                self._ledger.append(link)
            self._landed(link)

    def _landed(self, link: Link) -> None:
        if self._ledger is None:
            # Only the newest link and its predecessor: no caller needs more.
            earlier = [known for known in self._links.get(link.key, ()) if known.number < link.number]
            self._links[link.key] = [*earlier[-1:], link]
        elif not self._ledger.links(link.key, link.number):
            # Permanent: a retry would repeat the callback's whole effect.
            raise HandlerError(
                f"{self.name}: the callback has returned, but the ledger has no {link}: foreach_batch must write the "
                "link into the ledger, in the transaction with the rows' effect"
            )

    # -- for the audit -------------------------------------------------------------------------------

    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        raise HandlerError(f"{self.name}: its chains cannot be listed")

    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        raise HandlerError(f"{self.name}: the rows of a callback cannot be read here")

    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        raise HandlerError(f"{self.name}: keeps no versions")

    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        return list(self._staging.leftovers())

    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        if not self._staging.remove(leftover):
            raise HandlerError(f"{leftover.name} is no leftover of {self.name}")
