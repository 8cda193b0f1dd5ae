"""Landing by a callback: whatever `foreach_batch(frame, batch_id, link)` does with the rows is the table.

    exactly once      with a `Ledger`: in the transaction that has the rows' effect, the callback writes the link into
                      it, whose key (sink, topic, partition, number) is unique. Who comes second fails, with all it did.
    at least once     without: what has landed is known by Kafka's commits only. A member that dies between its callback
                      and its commit, or wakes when others own its partitions, repeats what it did.

Either way a batch has an id that stays the same when it is repeated; its records need not, since it ends where records
happened to be when it was due. Who replaces all that a batch id has brought, rather than add to it, is repeated without
harm, but for sleepers that wake.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sarameya import HandlerError, SarameyaError
from sarameya_handlers.landing.links import ChainKey, Link
from sarameya_handlers.spark.errors import LandingError, of_directory
from sarameya_handlers.spark.shaping.staged import require_readable
from sarameya_handlers.spark.tables.table import Checkpoint, Landing, Leftover, Phase, Shape, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger("sarameya.spark")

Callback = Callable[["DataFrame", str, Link], None]
"""Given the rows of one link, its batch id, and the link. Called in a worker thread, several times at once."""


class Ledger(Protocol):
    """Where links are written down together with what they brought. All methods block, and are called in threads.

    It needs to keep the last link of each chain, and its key is unique: of two that append the same number of a chain,
    the second one fails.
    """

    def heads(self, keys: Iterable[ChainKey]) -> Mapping[ChainKey, Link]:
        """The last link of each of these chains that has begun. Asked for none when it is opened, to see it answer."""

    def links(self, key: ChainKey, since: int) -> Sequence[Link]:
        """The chain's links from number `since` on, in order."""

    def append(self, link: Link) -> None:
        """Write down a link that brings no rows, in a transaction of its own. Raises where its number is taken."""


def batch_id(link: Link) -> str:
    """`sink/topic-partition/number`: the same for each try to land the link."""
    return f"{link.key}/{link.number}"


class ForeachBatch(Table):
    """Lands by calling `foreach_batch(frame, batch_id, link)`: exactly once with a `ledger`, else at least once.

        def foreach_batch(frame, batch_id, link):
            totals = frame.groupBy("item").count().collect()
            with database.begin() as transaction:
                add_up(transaction, totals)
                ledger.record(transaction, link)        # raises where the link is there already

    `frame` has the rows of one partition, as the sink's transform made them. The callback has done all when it returns;
    what it raises is taken for a landing that failed. What Spark's own tasks write is in no transaction of the
    callback's: let them write aside, under `link.attempt`, and take it over in the transaction. `staging` is a
    directory that all of Spark's workers can read.
    """

    def __init__(
        self, foreach_batch: Callback, *, staging: str | os.PathLike[str], ledger: Ledger | None = None
    ) -> None:
        self._foreach_batch = foreach_batch
        self._ledger = ledger
        self._staging = Path(staging).absolute()
        self._links: dict[ChainKey, list[Link]] = {}
        """Without a ledger: each chain's last link as Kafka's commit tells it, and what has landed since."""
        self.remembers = ledger is not None

    def __repr__(self) -> str:
        return f"ForeachBatch({self._called})"

    @property
    def _called(self) -> str:
        function = self._foreach_batch
        return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"

    @property
    def name(self) -> str:
        return f"foreach_batch:{self._called} ({'exactly' if self._ledger else 'at least'} once)"

    @property
    def staging(self) -> Path:
        return self._staging

    def open(self, spark: SparkSession) -> None:
        try:
            self._staging.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            told = f"{self.name}: cannot stage in {self._staging}"
            raise of_directory(told, error, "give another directory (staging)") from error
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
            # Somebody else may have landed since we did: what counts is Kafka's commit.
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
                continue  # somebody else's already
            if self.needs_spark:
                require_readable(spark, landing)  # what a callback reads, and when, is its own matter
            frame = shape.frame(spark, landing) if landing.staged is not None else None
            checkpoint(Phase.READY, [landing])
            if frame is not None:
                self._foreach_batch(frame, batch_id(link), link)
            elif self._ledger is not None:
                self._ledger.append(link)
            self._landed(link)

    def _landed(self, link: Link) -> None:
        if self._ledger is None:
            # The newest only, and the one before it: nobody asks for more.
            before = [one for one in self._links.get(link.key, ()) if one.number < link.number]
            self._links[link.key] = [*before[-1:], link]
        elif not self._ledger.links(link.key, link.number):
            # Tried again, it would do it all once more.
            raise HandlerError(
                f"{self.name}: it has returned, and the ledger has no {link}: foreach_batch must write the link down, "
                "in the transaction that has the rows' effect"
            )

    # -- for the audit -------------------------------------------------------------------------------

    def keys(self, spark: SparkSession) -> Sequence[ChainKey]:
        raise HandlerError(f"{self.name}: nobody knows all of its chains")

    def read(self, spark: SparkSession, version: str | None = None) -> DataFrame:
        raise HandlerError(f"{self.name}: its rows are wherever foreach_batch has written them")

    def heads_at(self, spark: SparkSession, version: str) -> dict[ChainKey, Link]:
        raise HandlerError(f"{self.name}: keeps no versions")

    def leftovers(self, spark: SparkSession) -> Sequence[Leftover]:
        stats = [(path, path.stat()) for path in self._staging.glob("*.parquet")]
        return [
            Leftover(name=str(path), size_bytes=s.st_size, changed=s.st_mtime, what="a staged file")
            for path, s in stats
        ]

    def remove(self, spark: SparkSession, leftover: Leftover) -> None:
        path = Path(leftover.name)
        if path.parent != self._staging:
            raise HandlerError(f"{path} is no leftover of {self.name}")
        path.unlink(missing_ok=True)
