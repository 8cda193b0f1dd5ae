"""Fetch sessions (KIP-227): a client names only changed partitions, and a broker returns only changed ones. Pure.

A client names all its partitions once (epoch 0). Later fetches of the session name only those that it adds, changes or
removes. Responses contain only partitions with new data or a changed state. This module decides which fetch belongs to
which session, which partitions a response contains, and which session is evicted. `apis.fetch_reading` reads the logs;
`apis.fetch` has the wire format.

Each broker has one `FetchSessions` until it stops. The rules are those of Kafka's FetchSession.scala, except that the
cache has no shards: with few slots, a shard would have none.
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
"""The session id of a fetch without a session."""

INITIAL_EPOCH = 0
"""Epoch of a fetch that requests a new session. The session that it names is closed."""

FINAL_EPOCH = -1
"""Epoch of a fetch without a session. The session that it names is closed."""

DEFAULT_SESSION_SLOTS = 1000
"""Kafka's `max.incremental.fetch.session.cache.slots`."""

EVICTION_TIME = 120.0
"""Seconds for which a new session cannot be evicted by a larger one. A session unused for longer is stale."""

_LAST_EPOCH = _LAST_ID = 2**31 - 1
_UNKNOWN = -1

PartitionKey = tuple[uuid.UUID | str, int]
"""A partition as its client names it: by topic id (Fetch v13 and later, KIP-516) or by topic name."""


@attrs.define(slots=True, eq=False)
class FetchPartition:
    """A partition as a client fetches it, and the state that was last returned to the client."""

    topic: str | None
    """The topic name; None while this broker does not know the topic id."""
    topic_id: uuid.UUID | None
    """The topic id; None if the client names topics by name."""
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    high_watermark: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN
    found: EmbeddedPartition | None = None
    """The partition as last found; None before that, or if the client's topic id is another one."""

    @property
    def key(self) -> PartitionKey:
        """The key of this partition within a session."""
        return (self.topic or "" if self.topic_id is None else self.topic_id), self.partition

    def update_request(self, wanted: FetchPartition) -> None:
        """Copy the parameters of a later fetch."""
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.max_bytes
        self.leader_epoch = wanted.leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch

    def update_response(self, read: PartitionReadResult) -> bool:
        """Remember what is returned to the client. Return True if it differs from the last response.

        After an error the high watermark is unknown. So the first response after the error counts as different.
        """
        is_changed = (
            bool(read.records)
            or self.high_watermark != read.high_watermark
            or self.log_start_offset != read.log_start_offset
            or read.preferred_read_replica >= 0
            or read.error is not ErrorCode.NONE
            or read.diverging is not None
        )
        self.high_watermark = read.high_watermark
        self.log_start_offset = read.log_start_offset
        return is_changed


@attrs.frozen(slots=True)
class PartitionReadResult:
    """Result of reading one partition. With an error, the offsets are -1."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = _UNKNOWN
    last_stable_offset: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN
    records: bytes = b""
    diverging: EpochEnd | None = None
    aborted: Sequence[tuple[int, int]] | None = None
    """(producer id, first offset) of aborted transactions; None for `read_uncommitted`."""
    preferred_read_replica: int = -1
    leader: tuple[int, int] | None = None
    """(leader id, leader epoch), returned with an error that a leader change causes (KIP-951)."""


Reads = list[tuple[FetchPartition, PartitionReadResult]]


@attrs.frozen(slots=True)
class FetchSessionResponse:
    """The session id and the partitions to return to a client."""

    session_id: int
    reads: Reads
    error: ErrorCode = ErrorCode.NONE


class FetchContext(ABC):
    """A fetch from its request to its response."""

    @property
    @abstractmethod
    def partitions(self) -> Iterable[FetchPartition]:
        """Partitions to read, in order."""

    @property
    @abstractmethod
    def returns_all(self) -> bool:
        """True if the response contains every partition; False if only changed ones."""

    @abstractmethod
    def answer(self, reads: Reads, now: float) -> FetchSessionResponse:
        """Return the response for `reads`. Called once.

        `reads` has a result for each of `partitions`; unchanged partitions may be missing.
        """


Partitions = dict[PartitionKey, FetchPartition]


class _SessionlessFetch(FetchContext):
    """A fetch without a session. It names and returns all its partitions."""

    returns_all = True

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    @property
    def partitions(self) -> Iterable[FetchPartition]:
        return self._partitions.values()

    def answer(self, reads: Reads, now: float) -> FetchSessionResponse:
        return FetchSessionResponse(NO_SESSION, reads)


class _FullFetch(_SessionlessFetch):
    """A fetch that names and returns all its partitions. Its response starts a session if there is a slot."""

    def __init__(self, partitions: Partitions, sessions: FetchSessions, uses_topic_ids: bool) -> None:
        super().__init__(partitions)
        self._sessions = sessions
        self._uses_topic_ids = uses_topic_ids

    def answer(self, reads: Reads, now: float) -> FetchSessionResponse:
        for partition, read in reads:
            partition.update_response(read)
        session_id = self._sessions.create({p.key: p for p, _ in reads}, self._uses_topic_ids, now)
        return FetchSessionResponse(session_id, reads)


class _IncrementalFetch(FetchContext):
    """A later fetch of a session. It reads all partitions of the session and returns the changed ones."""

    returns_all = False

    def __init__(self, session: _FetchSession) -> None:
        self._session = session
        self._epoch = session.epoch

    @property
    def partitions(self) -> Iterable[FetchPartition]:
        return self._session.partitions.values()

    def answer(self, reads: Reads, now: float) -> FetchSessionResponse:
        session = self._session
        if session.epoch != self._epoch:  # the client has fetched again meanwhile, over another connection
            return FetchSessionResponse(session.id, [], ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        changed = [(partition, read) for partition, read in reads if partition.update_response(read)]
        for partition, read in changed:
            if read.records:
                # Move the partition to the end, so that the others come first when a response has no room for all.
                session.partitions[partition.key] = session.partitions.pop(partition.key)
        return FetchSessionResponse(session.id, changed)


@attrs.define(slots=True, eq=False)
class _FetchSession:
    """The partitions of one client's session, in the order in which they are read."""

    id: int
    partitions: Partitions
    uses_topic_ids: bool
    created: float
    last_used: float
    epoch: int = INITIAL_EPOCH + 1
    """Epoch of the next fetch."""

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def update(self, wanted: Partitions, forgotten: Iterable[PartitionKey]) -> None:
        for key, partition in wanted.items():
            known = self.partitions.setdefault(key, partition)
            if known is not partition:
                known.update_request(partition)
        for key in forgotten:
            self.partitions.pop(key, None)


class FetchSessions:
    """Fetch sessions of one broker, at most `slots`."""

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
        """Start a fetch.

        Args:
            session_id: The session that the client names.
            epoch: The client's session epoch.
            wanted: Partitions that the fetch adds or changes.
            forgotten: Partitions that it removes.
            uses_topic_ids: True if the client names topics by id.
            now: The current time.

        Raises:
            Refused: FETCH_SESSION_ID_NOT_FOUND for a closed or evicted session; INVALID_FETCH_SESSION_EPOCH for a fetch
                out of order; FETCH_SESSION_TOPIC_ID_ERROR if the session names topics by id and the fetch by name,
                or vice versa. The fetch is refused as a whole.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            return _SessionlessFetch(wanted) if epoch == FINAL_EPOCH else _FullFetch(wanted, self, uses_topic_ids)
        session = self._sessions.get(session_id)
        if session is None:
            raise Refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"unknown fetch session {session_id}")
        if session.epoch != epoch:
            raise Refused(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} is at epoch {session.epoch}, not {epoch}",
            )
        if session.uses_topic_ids != uses_topic_ids:
            named = "ids" if session.uses_topic_ids else "names"
            raise Refused(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, f"fetch session {session_id} names topics by their {named}"
            )
        session.update(wanted, forgotten)
        if not session.partitions:
            del self._sessions[session_id]
            return _SessionlessFetch(wanted)
        session.last_used = now
        session.advance()
        return _IncrementalFetch(session)

    def create(self, partitions: Partitions, uses_topic_ids: bool, now: float) -> int:
        """Create a session and return its id; NO_SESSION if there is no slot and no session to evict."""
        if len(self._sessions) >= self._slots and not self._evict_for(len(partitions), now):
            return NO_SESSION
        session_id = self._rng.randint(1, _LAST_ID)
        while session_id in self._sessions:
            session_id = self._rng.randint(1, _LAST_ID)
        self._sessions[session_id] = _FetchSession(session_id, partitions, uses_topic_ids, now, now)
        return session_id

    def _evict_for(self, size: int, now: float) -> bool:
        """Evict the least recently used session if it is stale, else the smallest old one if smaller than `size`."""
        sessions = self._sessions.values()
        stalest = min(sessions, key=lambda session: (session.last_used, session.id), default=None)
        if stalest is not None and now - stalest.last_used > EVICTION_TIME:
            del self._sessions[stalest.id]
            return True
        # A session's age counts up to its last use.
        old = (session for session in sessions if session.last_used - session.created > EVICTION_TIME)
        smallest = min(old, key=lambda session: (len(session.partitions), session.id), default=None)
        if smallest is not None and len(smallest.partitions) < size:
            del self._sessions[smallest.id]
            return True
        return False
