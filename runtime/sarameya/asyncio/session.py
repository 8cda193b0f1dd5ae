"""A session as a handler of asyncio sees it."""

from __future__ import annotations

from collections.abc import Mapping

from sarameya.asyncio.marks import PostedMarks
from sarameya.asyncio.pausing import AsyncPausing
from sarameya.asyncio.portal import Portal
from sarameya.group import session
from sarameya.model import GroupMetadata
from sarameya.observe import Event


class Session(PostedMarks, AsyncPausing):
    """A session of a group member, for handlers of asyncio: `sarameya.Session` with fewer methods."""

    def __init__(self, session: session.Session, portal: Portal) -> None:
        super().__init__(session)
        self._session = session
        self._group_portal = portal

    @property
    def _portal(self) -> Portal:
        return self._group_portal

    @property
    def _pausing(self) -> session.Session:
        return self._session

    @property
    def group(self) -> str:
        """Id of the group."""
        return self._session.group

    @property
    def member_id(self) -> str:
        """Member id, given by the coordinator."""
        return self._session.member_id

    @property
    def generation(self) -> int:
        """Number of the generation, which fences commits. Under a cooperative assignor it changes within a session."""
        return self._session.generation

    @property
    def group_metadata(self) -> GroupMetadata:
        """The member's identity for a transactional producer's `send_offsets_to_transaction` (KIP-447).

        Read it again for each transaction, since the generation changes.
        """
        return self._session.group_metadata

    @property
    def claims(self) -> Mapping[str, tuple[int, ...]]:
        """Owned partitions of each topic, in ascending order."""
        return self._session.claims

    @property
    def is_lost(self) -> bool:
        """True once the membership is lost: other members own the partitions, and no mark can be committed any more."""
        return self._session.is_lost

    @property
    def cluster_id(self) -> str:
        """Id of the cluster (KIP-78); empty if its brokers have none (before 0.10.1)."""
        return self._session.cluster_id

    def topic_id(self, topic: str) -> str:
        """Return the id of the topic with this name, as 32 hex digits. See `sarameya.Session.topic_id`.

        Raises:
            ValueError: No partition of the topic is claimed.
        """
        return self._session.topic_id(topic)

    async def commit(self) -> None:
        """Commit all marks now. See `Config.autocommit`.

        Raises:
            CommitError: The membership or the session is over.
            TopicAuthorizationError: The group may not commit for a topic.
            KafkaError: The coordinator refused a partition.
        """
        await self._portal.call(self._session.commit)

    def notify(self, event: Event) -> None:
        """Pass an event of the handler to the group's observers: an event class of your own."""
        self._portal.post(self._session.notify, event)

    def end(self, reason: str) -> None:
        """Request the end of this session: claims stop, marks are committed, and the member rejoins."""
        self._portal.post(self._session.end, reason)
