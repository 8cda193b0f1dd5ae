"""Produce requests to leaders, and the processing of their responses. Trio; its only state is which brokers are busy.

A broker gets one request at a time. Records that arrive meanwhile go with the next request. So batches grow by
themselves if responses are slow, and no record waits if they are fast.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import trio
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from sarameya.config import Config
from sarameya.errors import AuthenticationError, KafkaError, SarameyaError, UnsupportedVersionError
from sarameya.model import TopicPartition
from sarameya.net.broker_pool import BrokerPool, Purpose
from sarameya.net.metadata_refresher import MetadataRefresher
from sarameya.net.retries import Retries
from sarameya.observe import Observer, Retrying
from sarameya.producer.outbox import Outbox
from sarameya.producer.partition_queue import Batch, Identity, Pending
from sarameya.producer.record import UNKNOWN_OFFSET
from sarameya.producer.verdicts import Verdict, refusal, verdict_on
from sarameya.protocol.backoff import Backoff

_ALL_IN_SYNC = -1
"""Value of `acks` for all in-sync replicas."""
_NO_TRANSACTION_TIMEOUT = 2**31 - 1
_REPLICA_WAIT = 0.8
"""Fraction of the request timeout for which a broker waits for replicas, so that its response still arrives in time."""

_Topic = ProduceRequest.TopicProduceData


class Sender:
    """Sender of one outbox. `run` must be running."""

    def __init__(
        self,
        outbox: Outbox,
        pool: BrokerPool,
        metadata: MetadataRefresher,
        config: Config,
        observer: Observer,
        backoff: Backoff,
    ) -> None:
        self._outbox = outbox
        self._pool = pool
        self._metadata = metadata
        self._config = config
        self._observer = observer
        self._backoff = backoff
        self._busy: set[int] = set()
        self._wake = trio.Event()

    def send_nowait(self, records: Iterable[Pending]) -> None:
        """Queue records, and wake the task that sends them."""
        for pending in records:
            self._outbox.add(pending)
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                self._wake = trio.Event()
                if self._outbox.has_work and self._outbox.identity is None:
                    await self._identify()
                with trio.move_on_at(math.inf if self._outbox.identity is None else self._dispatch(nursery)):
                    await self._wake.wait()

    def _dispatch(self, nursery: trio.Nursery) -> float:
        """Send due batches. Return the time of the next call."""
        due = self._outbox.due(self._metadata.current.leader, self._busy, trio.current_time())
        for node, batches in due.requests.items():
            self._busy.add(node)
            nursery.start_soon(self._produce, node, batches)
        for partition in due.leaderless:
            self._observe(self._outbox.leaderless(partition, "the partition has no leader", trio.current_time()))
        if due.leaderless:
            self._metadata.request_refresh()
            return trio.current_time()
        return due.wake_at

    # -- producer id ----------------------------------------------------------------------------------

    async def _identify(self) -> None:
        """Get a producer id. Stop if no records are left to send; fail all records if the error is permanent."""
        retries = Retries("producer id", self._backoff, self._observer, kind="producer_id")
        try:
            while self._outbox.has_work:
                try:
                    self._outbox.identity = await self._ask_for_id()
                    return
                except SarameyaError as error:
                    if not (error.retriable or _may_pass(error)):
                        raise
                    self._outbox.set_trouble(str(error))
                    await retries.wait(str(error))
        except SarameyaError as error:  # a permanent error, or exhausted retries
            self._outbox.fail_all(error)

    async def _ask_for_id(self) -> Identity:
        answer = await self._pool.request_any(
            InitProducerIdRequest,
            transactional_id=None,
            transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT,
            producer_id=-1,
            producer_epoch=-1,
        )
        if answer.error_code:
            raise refusal(answer.error_code, "producer id")
        return Identity(answer.producer_id, answer.producer_epoch)

    # -- records -------------------------------------------------------------------------------------

    async def _produce(self, node: int, batches: Sequence[Batch]) -> None:
        try:
            answer = await self._pool.request(
                node,
                Purpose.PRODUCE,
                ProduceRequest,
                transactional_id=None,
                acks=_ALL_IN_SYNC,
                timeout_ms=int(self._config.request_timeout * _REPLICA_WAIT * 1000),
                topic_data=_topics(batches),
            )
        except (UnsupportedVersionError, AuthenticationError) as error:
            for batch in batches:
                self._outbox.refused(batch, error)
        except SarameyaError as error:
            # The partition may have another leader now. The batches may be stored.
            self._metadata.request_refresh()
            self._retry(batches, str(error))
        else:
            self._process(answer, batches)
        finally:
            self._busy.discard(node)
            self._wake.set()

    def _process(self, answer: Any, batches: Sequence[Batch]) -> None:
        left = {batch.partition: batch for batch in batches}
        for topic in answer.responses:
            for part in topic.partition_responses:
                batch = left.pop(TopicPartition(topic.name, part.index), None)
                if batch is not None:
                    self._process_partition(batch, part)
        self._retry(left.values(), "the partition is missing in the broker's response")

    def _process_partition(self, batch: Batch, part: Any) -> None:
        code, now = part.error_code, trio.current_time()
        # From version 8 on the response has a message and the records that caused the error (KIP-467).
        error = refusal(code, f"record for {batch.partition}", getattr(part, "error_message", None))
        places = [row.batch_index for row in getattr(part, "record_errors", None) or ()]
        match verdict_on(code):
            case Verdict.STORED:
                self._outbox.stored(batch, UNKNOWN_OFFSET if code else part.base_offset)
            case Verdict.AGAIN:
                self._observe(self._outbox.again(batch, str(error), now))
            case Verdict.ELSEWHERE:
                self._metadata.request_refresh()
                self._observe(self._outbox.again(batch, str(error), now))
            case Verdict.RENUMBER:
                self._observe(self._outbox.renumber(batch, str(error), now))
            case Verdict.HALVE if self._outbox.halve(batch):
                pass
            case Verdict.FENCED:
                self._outbox.refused(batch, error, is_fenced=True)
            case _:
                self._outbox.refused(batch, error, places)

    def _retry(self, batches: Iterable[Batch], cause: str) -> None:
        for batch in batches:
            self._observe(self._outbox.again(batch, cause, trio.current_time()))

    def _observe(self, event: Retrying | None) -> None:
        if event is not None:
            self._observer(event)


def _may_pass(error: SarameyaError) -> bool:
    return isinstance(error, KafkaError) and verdict_on(error.code) is Verdict.AGAIN


def _topics(batches: Iterable[Batch]) -> list[object]:
    topics: dict[str, list[object]] = {}
    for batch in batches:
        row = _Topic.PartitionProduceData(index=batch.partition.partition, records=batch.data)
        topics.setdefault(batch.partition.topic, []).append(row)
    return [_Topic(name=name, partition_data=rows) for name, rows in topics.items()]
