"""Fetch sessions (KIP-227): what a client need not say again, and what a broker need not say again. Pure.

A client names its partitions once (epoch 0) and from then on only those that it wants otherwise or not any more; the
answer names those that have news. Owns what a session holds, which fetches belong to it, what of an answer is news, and
who must go when there are too many sessions. What stands in the logs is asked by `apis.fetch_reading`, how it
is said on the wire is `apis.fetch`'s.

One `FetchSessions` is what one broker keeps, until it stops. The rules are those of Kafka's FetchSession.scala; but for
its cache's shards: here all sessions share one, or few slots would be none.
"""

from __future__ import annotations

import random
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import attrs

from sarameya.embedded.log.epoch_cache import EpochEnd
from sarameya.embedded.refusal import Refused
from sarameya.embedded.topics import EmbeddedPartition
from sarameya.error_codes import ErrorCode

NO_SESSION = 0
"""The id of no session."""

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
"""A fetch that wants a new session, and one that wants none; either closes the session that it names."""

DEFAULT_SESSION_SLOTS = 1000
"""Kafka's `max.incremental.fetch.session.cache.slots`."""

EVICTION_TIME = 120.0
"""Seconds for which a session is safe from a larger one, and after which an unused one is stale."""

_LAST_EPOCH = _LAST_ID = 2**31 - 1
_UNKNOWN = -1

PartitionKey = tuple[uuid.UUID | str, int]
"""A partition as its client names it: by the topic's id (Fetch v13 and later, KIP-516) or by its name."""


@attrs.define(slots=True, eq=False)
class FetchPartition:
    """One partition that a client reads: what it asked last, and what it was told last."""

    topic: str | None
    """None while this broker does not know the topic's id."""
    topic_id: uuid.UUID | None
    """None where the client names topics by name."""
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    high_watermark: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN
    place: EmbeddedPartition | None = None
    """Where it was found last, by the topic's name, and its id if that was said."""

    @property
    def key(self) -> PartitionKey:
        return (self.topic or "" if self.topic_id is None else self.topic_id), self.partition

    def ask(self, wanted: FetchPartition) -> None:
        """The client wants it otherwise from now on."""
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.max_bytes
        self.leader_epoch = wanted.leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch

    def tell(self, read: PartitionReadResult) -> bool:
        """Whether this is news, remembering that it was told.

        After an error the high watermark counts as unknown, so that it is news that the error has gone.
        """
        is_news = (
            bool(read.records)
            or self.high_watermark != read.high_watermark
            or self.log_start_offset != read.log_start_offset
            or read.preferred_read_replica >= 0
            or read.error is not ErrorCode.NONE
            or read.diverging is not None
        )
        self.high_watermark = read.high_watermark
        self.log_start_offset = read.log_start_offset
        return is_news


@attrs.frozen(slots=True)
class PartitionReadResult:
    """What there is to say about one partition. Offsets are -1 beside an error."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = _UNKNOWN
    last_stable_offset: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN
    records: bytes = b""
    diverging: EpochEnd | None = None
    aborted: Sequence[tuple[int, int]] | None = None
    """(producer id, first offset) of aborted transactions; None where nobody asks for them."""
    preferred_read_replica: int = -1
    leader: tuple[int, int] | None = None
    """(leader id, leader epoch), told with an error that says that the client looks in the wrong place (KIP-951)."""


Reads = list[tuple[FetchPartition, PartitionReadResult]]


@attrs.frozen(slots=True)
class FetchSessionResponse:
    """What is told to a client of what was read."""

    session_id: int
    reads: Reads
    error: ErrorCode = ErrorCode.NONE


class FetchContext(ABC):
    """One fetch, from the request to its answer, which may be later."""

    @property
    @abstractmethod
    def partitions(self) -> Iterable[FetchPartition]:
        """What it reads, in the order in which it is read."""

    @property
    @abstractmethod
    def tells_all(self) -> bool:
        """Whether every partition is told of, or only those with news."""

    @abstractmethod
    def answer(self, reads: Reads, now: float) -> FetchSessionResponse:
        """What of `reads` is told: one for each of `partitions`, but for some without news maybe. Called once."""


Partitions = dict[PartitionKey, FetchPartition]


class _SessionlessFetch(FetchContext):
    tells_all = True

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    @property
    def partitions(self) -> Iterable[FetchPartition]:
        return self._partitions.values()

    def answer(self, reads: Reads, now: float) -> FetchSessionResponse:
        return FetchSessionResponse(NO_SESSION, reads)


class _FullFetch(_SessionlessFetch):
    """Names all its partitions, and is told of all. A session for the next ones is made with its answer, if one may."""

    def __init__(self, partitions: Partitions, sessions: FetchSessions, uses_topic_ids: bool) -> None:
        super().__init__(partitions)
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids

    def answer(self, reads: Reads, now: float) -> FetchSessionResponse:
        for partition, read in reads:
            partition.tell(read)
        session_id = self._sessions.create({p.key: p for p, _ in reads}, self._uses_topic_ids, now)
        return FetchSessionResponse(session_id, reads)


class _IncrementalFetch(FetchContext):
    tells_all = False

    def __init__(self, session: _FetchSession) -> None:
        self._session = session
        self._epoch = session.epoch

    @property
    def partitions(self) -> Iterable[FetchPartition]:
        return self._session.partitions.values()

    def answer(self, reads: Reads, now: float) -> FetchSessionResponse:
        session = self._session
        if session.epoch != self._epoch:  # the client has asked again meanwhile, over another connection
            return FetchSessionResponse(session.id, [], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        news = [(partition, read) for partition, read in reads if partition.tell(read)]
        for partition, read in news:
            if read.records:
                # To the end, so that those behind it come first when an answer has no room for all.
                session.partitions[partition.key] = session.partitions.pop(partition.key)
        return FetchSessionResponse(session.id, news)


@attrs.define(slots=True, eq=False)
class _FetchSession:
    id: int
    partitions: Partitions
    uses_topic_ids: bool
    created: float
    last_used: float
    epoch: int = INITIAL_EPOCH + 1
    """That of the next fetch."""

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def update(self, wanted: Partitions, forgotten: Iterable[PartitionKey]) -> None:
        for key, partition in wanted.items():
            known = self.partitions.setdefault(key, partition)
            if known is not partition:
                known.ask(partition)
        for key in forgotten:
            self.partitions.pop(key, None)


class FetchSessions:
    """One broker's sessions, `slots` of them at most."""

    def __init__(self, rng: random.Random, *, slots: int = DEFAULT_SESSION_SLOTS) -> None:
        self._rng = rng
        self._slots = slots
        self._sessions: dict[int, _FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self,
        session_id: int,
        epoch: int,
        wanted: Partitions,
        forgotten: Iterable[PartitionKey],
        *,
        uses_topic_ids: bool,
        now: float,
    ) -> FetchContext:
        """A fetch has come. Raises Refused, which concerns the fetch as a whole:

        FETCH_SESSION_ID_NOT_FOUND for a session that was closed or evicted, INVALID_FETCH_SESSION_EPOCH for a fetch out
        of turn, FETCH_SESSION_TOPIC_ID_ERROR where topics are named otherwise than by the fetch that made the session.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            return _SessionlessFetch(wanted) if epoch == FINAL_EPOCH else _FullFetch(wanted, self, uses_topic_ids)
        session = self._sessions.get(session_id)
        if session is None:
            raise Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {session_id}")
        if session.epoch != epoch:
            raise Refused(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} is at epoch {session.epoch}, not {epoch}",
            )
        if session.uses_topic_ids != uses_topic_ids:
            named = "ids" if session.uses_topic_ids else "names"
            raise Refused(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, f"fetch session {session_id} has its topics by their {named}"
            )
        session.update(wanted, forgotten)
        if not session.partitions:
            del self._sessions[session_id]
            return _SessionlessFetch(wanted)
        session.last_used = now
        session.advance()
        return _IncrementalFetch(session)

    def create(self, partitions: Partitions, uses_topic_ids: bool, now: float) -> int:
        """The id of a new session; NO_SESSION if there is no slot, and none that must be given up for it."""
        if len(self._sessions) >= self._slots and not self._evict_for(len(partitions), now):
            return NO_SESSION
        session_id = self._rng.randint(1, _LAST_ID)
        while session_id in self._sessions:
            session_id = self._rng.randint(1, _LAST_ID)
        self._sessions[session_id] = _FetchSession(session_id, partitions, uses_topic_ids, now, now)
        return session_id

    def _evict_for(self, size: int, now: float) -> bool:
        """Close the session used least lately if it is stale, else the smallest of the old ones if it is smaller."""
        sessions = self._sessions.values()
        stalest = min(sessions, key=lambda session: (session.last_used, session.id), default=None)
        if stalest is not None and now - stalest.last_used > EVICTION_TIME:
            del self._sessions[stalest.id]
            return True
        # Whether one is old was found out when it was last used.
        old = (session for session in sessions if session.last_used - session.created > EVICTION_TIME)
        smallest = min(old, key=lambda session: (len(session.partitions), session.id), default=None)
        if smallest is not None and len(smallest.partitions) < size:
            del self._sessions[smallest.id]
            return True
        return False
