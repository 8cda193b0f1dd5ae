"""Keeps `ClusterMetadata` fresh: on demand, and when it has grown old. One task owns it; everyone may read it.

The brokers take turns (`broker_rotation.py`), and one answer takes nothing back (`protocol/metadata_merger.py`): a
broker that lags behind the others neither holds up news nor undoes them.

A refresh that fails is tried again with backoff and said to the observer; it never replaces what is known (a
failed look-up is not a change). One that is refused for who we are is tried again when it is asked for, or old.
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
from sarameya.protocol.metadata import ClusterMetadata, from_response
from sarameya.protocol.metadata_merger import CONFIRMATIONS, MetadataMerger


class MetadataRefresher:
    """`current` is the newest metadata; `refresh()` waits for a newer one."""

    def __init__(self, pool: BrokerPool, config: Config, observer: Observer, backoff: Backoff | None = None) -> None:
        self._pool = pool
        self._config = config
        self._observer = observer
        # Without bounds: this task serves whoever asks, for as long as anybody may; askers have bounds of their own.
        self._backoff = attrs.evolve(backoff or Backoff.of(config), max_attempts=math.inf, max_seconds=math.inf)
        self._merger = MetadataMerger()
        self._topics: set[str] = set()
        self._all_topics = False
        self._wanted = trio.Event()
        self._refreshed = trio.Event()
        self._updated = trio.Event()
        self._last_error: SarameyaError | None = None

    @property
    def current(self) -> ClusterMetadata:
        """The newest metadata."""
        return self._merger.current

    def follow(self, topics: Iterable[str]) -> None:
        """From now on look these topics up too."""
        self._topics.update(topics)

    def follow_all(self, wanted: bool = True) -> None:
        """From now on look all topics up, as who subscribes by a pattern needs; or no longer."""
        self._all_topics = wanted

    def request_refresh(self) -> None:
        """Ask for a refresh without waiting for it; many askers share one."""
        self._wanted.set()

    async def refresh(self) -> ClusterMetadata:
        """Metadata newer than this call. Retries until it is had; bound it with a cancel scope."""
        # A refresh on its way may have been sent before whatever the caller has just learnt.
        self._wanted.set()
        refreshed = self._refreshed
        await refreshed.wait()
        return self.current

    async def next(self) -> ClusterMetadata:
        """The next metadata that comes, whoever has asked for it; asks for none."""
        await self._updated.wait()
        return self.current

    async def reach_cluster(self, topics: Iterable[str]) -> ClusterMetadata:
        """Metadata in which every one of `topics` has its partitions; `Config.bootstrap_timeout` seconds at most.

        A topic that is missing may be about to be created: it is looked up again, which observers are told. Raises
        ConnectError, with the last cause, if no broker answered in that time, TokenError if there was nothing to show
        one, UnknownTopicError (or the topic's own error) if a topic is still unknown at its end, and at once
        AuthenticationError where a broker does not take us.
        """
        wanted = tuple(topics)
        self.follow(wanted)
        seen = False
        retries = Retries("look-up of topics", self._backoff, self._observer, kind="topics")
        with self._pool.until_refused(), trio.move_on_after(self._config.bootstrap_timeout):
            while True:
                metadata = await self.refresh()
                seen = True
                missing = metadata.missing(wanted)
                if not missing:
                    return metadata
                fatal = {t: c for t, c in missing.items() if c in _NEVER_APPEARS}
                if fatal:
                    break
                await retries.wait(", ".join(f"{t}: {ErrorCode.describe(c)}" for t, c in sorted(missing.items())))
        if not seen:
            silent = f"{', '.join(self._pool.addresses)} do not answer; is there a Kafka broker?"
            cause = str(self._last_error) if self._last_error else silent
            kind = TokenError if isinstance(self._last_error, TokenError) else ConnectError
            raise kind(f"{cause} (gave up after {self._config.bootstrap_timeout:g} s)")
        for topic, code in sorted(self.current.missing(wanted).items()):
            raise kafka_error(code, f"topic {topic!r}")
        return self.current

    async def run(self) -> None:
        """Refresh when asked, and every `Config.metadata_max_age` seconds. Runs until cancelled."""
        waiting: list[trio.Event] = []
        refusals = 0
        while True:
            with trio.move_on_after(self._config.metadata_max_age):
                await self._wanted.wait()
            self._wanted = trio.Event()
            # Whoever asks from here on wants metadata newer than what this round brings.
            waiting = [event for event in (*waiting, self._refreshed) if event.statistics().tasks_waiting]
            self._refreshed = trio.Event()
            try:
                await self._refresh_until_had()
            except AuthenticationError as error:
                # Who owns the pool has heard of it (`BrokerPool.refusals`), and mostly ends us, with one line. If not,
                # this is of no use until somebody asks again, who may know better.
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

    async def _refresh_until_had(self) -> None:
        """Raises AuthenticationError, which no other try would mend."""
        retries = Retries("metadata", self._backoff, self._observer, kind="metadata")
        while True:
            try:
                await self._ask()
                for _ in range(CONFIRMATIONS - 1):
                    if self._merger.has_doubts:  # the next broker confirms or denies
                        await self._ask()
            except AuthenticationError:
                raise
            except SarameyaError as error:
                self._last_error = error
                await retries.wait(str(error))
            else:
                self._pool.update(self.current.brokers)
                return

    async def _ask(self) -> None:
        """One look-up. Raises ConnectError, or ProtocolError where the answer cannot be true."""
        asks_for_all = self._all_topics
        # Null means all of them, an empty list none.
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(self._topics)]
        answer = await self._pool.request_any(
            MetadataRequest,
            topics=None if asks_for_all else topics,
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        told = from_response(answer)
        if not told.brokers:
            # As a broker says that has just started; taken for true it would leave us nobody to ask.
            raise ProtocolError("the answer to a Metadata request names no broker")
        self._merger.merge(attrs.evolve(told, has_all_topics=asks_for_all))


_NEVER_APPEARS = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
"""Errors that waiting does not mend, unlike a topic that somebody is about to create."""
