"""Refresh of `ClusterMetadata`, on demand and by age. One task writes the metadata; any task may read them.

Requests go to the brokers in turn (`broker_rotation.py`), and a single response removes nothing
(`protocol/cluster/metadata_merger.py`). So a broker with stale metadata can neither delay a change nor undo it. A
failed refresh is retried with backoff and reported to the observer; the known metadata stay as they are. After an
authentication failure there is no backoff: the next call for a refresh, or the age of the metadata, starts the next
attempt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import attrs
import trio
from kafka.protocol.metadata import MetadataRequest

from sarameya.config import Config
from sarameya.error_codes import ErrorCode
from sarameya.errors import AuthenticationError, ConnectError, ProtocolError, SarameyaError, TokenError, kafka_error
from sarameya.net.broker_pool import BrokerPool
from sarameya.net.retries import Retries
from sarameya.observe import Observer, Retrying
from sarameya.protocol.backoff import Backoff
from sarameya.protocol.cluster.metadata import ClusterMetadata, from_response
from sarameya.protocol.cluster.metadata_merger import CONFIRMATIONS, MetadataMerger


class MetadataRefresher:
    """Holder of the newest metadata (`current`), and the task that refreshes them (`run`)."""

    def __init__(self, pool: BrokerPool, config: Config, observer: Observer, backoff: Backoff | None = None) -> None:
        self._pool = pool
        self._config = config
        self._observer = observer
        # Without bounds: this task serves callers for as long as it runs. Each caller has bounds of its own.
        self._backoff = attrs.evolve(backoff or Backoff.of(config), max_attempts=math.inf, max_seconds=math.inf)
        self._merger = MetadataMerger()
        self._topics: set[str] = set()
        self._all_topics = False
        self._wanted = trio.Event()
        self._refreshed = trio.Event()
        """Set when the next round to start has succeeded. A round in progress may be older than a call of `refresh`."""
        self._updated = trio.Event()
        """Set when any round has succeeded, including one in progress."""
        self._last_error: SarameyaError | None = None

    @property
    def current(self) -> ClusterMetadata:
        """The newest metadata."""
        return self._merger.current

    def follow(self, topics: Iterable[str]) -> None:
        """Include these topics in every refresh from now on."""
        self._topics.update(topics)

    def follow_all(self, wanted: bool = True) -> None:
        """Include all topics in every refresh from now on, for subscriptions by pattern; or no longer (False)."""
        self._all_topics = wanted

    def request_refresh(self) -> None:
        """Request a refresh without waiting for it; several callers share one."""
        self._wanted.set()

    async def refresh(self) -> ClusterMetadata:
        """Return metadata that were requested after this call.

        Waits until a refresh succeeds, even after authentication failures: bound it with a cancel scope.
        """
        # A refresh in progress may have been sent before the event that made the caller request one.
        self._wanted.set()
        refreshed = self._refreshed
        await refreshed.wait()
        return self.current

    async def next(self) -> ClusterMetadata:
        """Return the next metadata that arrive. Does not request a refresh."""
        await self._updated.wait()
        return self.current

    async def wait_for_topics(self, topics: Iterable[str]) -> ClusterMetadata:
        """Return metadata in which all `topics` have partitions, within `Config.bootstrap_timeout` seconds.

        A missing topic may be about to be created, so the lookup is retried and reported to the observer.

        Raises:
            ConnectError: No broker answered in that time. The error names the last cause.
            TokenError: No credentials were available.
            UnknownTopicError: A topic is still unknown at the end. Other errors of a topic are raised as well.
            AuthenticationError: A broker refuses this client. Raised at once.
        """
        wanted = tuple(topics)
        self.follow(wanted)
        has_answered = False
        retries = Retries("lookup of topics", self._backoff, self._observer, kind="topics")
        with self._pool.until_refused(), trio.move_on_after(self._config.bootstrap_timeout):
            while True:
                metadata = await self.refresh()
                has_answered = True
                missing = metadata.missing(wanted)
                if not missing:
                    return metadata
                if any(code in _PERMANENT for code in missing.values()):
                    break
                await retries.wait(", ".join(f"{t}: {ErrorCode.describe(c)}" for t, c in sorted(missing.items())))
        if not has_answered:
            silent = f"{', '.join(self._pool.addresses)} do not answer; is there a Kafka broker?"
            cause = str(self._last_error) if self._last_error else silent
            kind = TokenError if isinstance(self._last_error, TokenError) else ConnectError
            raise kind(f"{cause} (gave up after {self._config.bootstrap_timeout:g} s)")
        for topic, code in sorted(self.current.missing(wanted).items()):
            raise kafka_error(code, f"topic {topic!r}")
        return self.current

    async def run(self) -> None:
        """Refresh on demand, and every `Config.metadata_max_age` seconds. Runs until cancelled."""
        waiting: list[trio.Event] = []
        refusals = 0
        while True:
            with trio.move_on_after(self._config.metadata_max_age):
                await self._wanted.wait()
            self._wanted = trio.Event()
            # Calls of `refresh` from here on need metadata newer than the result of this round.
            waiting = [event for event in (*waiting, self._refreshed) if event.statistics().tasks_waiting]
            self._refreshed = trio.Event()
            try:
                await self._refresh_with_retries()
            except AuthenticationError as error:
                # `BrokerPool.refusals` has notified the pool's owner, who usually cancels this task. If not, the
                # waiting calls stay in `waiting`, and the next call or the age starts the next attempt. That is
                # reported as a retry unless a call comes at once.
                self._last_error = error
                refusals += 1
                with trio.move_on_after(self._backoff.delay(1)):
                    await self._wanted.wait()
                    continue
                age = self._config.metadata_max_age
                self._observer(Retrying("metadata", refusals, 0.0, age, str(error), kind="metadata"))
                continue
            refusals = 0
            for event in waiting:
                event.set()
            self._updated.set()
            self._updated = trio.Event()

    async def _refresh_with_retries(self) -> None:
        """Refresh, and retry after any error but AuthenticationError, which is raised: a retry would not help."""
        retries = Retries("metadata", self._backoff, self._observer, kind="metadata")
        while True:
            try:
                await self._send_request()
                for _ in range(CONFIRMATIONS - 1):
                    if self._merger.has_doubts:  # the response of the next broker confirms or denies the change
                        await self._send_request()
            except AuthenticationError:
                raise
            except SarameyaError as error:
                self._last_error = error
                await retries.wait(str(error))
            else:
                self._pool.update(self.current.brokers)
                return

    async def _send_request(self) -> None:
        """Send one request. Raises ConnectError, or ProtocolError if the response cannot be true."""
        asks_for_all = self._all_topics
        # Null stands for all topics, an empty list for none.
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(self._topics)]
        raw_response = await self._pool.request_any(
            MetadataRequest,
            topics=None if asks_for_all else topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        response = from_response(raw_response)
        if not response.brokers:
            # A broker that has just started returns this. If it were accepted, no broker could be asked any more.
            raise ProtocolError("the response to a Metadata request contains no broker")
        self._merger.merge(attrs.evolve(response, has_all_topics=asks_for_all))


_PERMANENT = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
"""Error codes of topics for which waiting does not help."""
