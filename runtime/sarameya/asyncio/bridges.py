"""Handlers of trio whose methods call those of a handler of asyncio."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from sarameya.asyncio.claim import Claim
from sarameya.asyncio.handlers import BatchHandler, ConsumerGroupHandler, MessageHandler
from sarameya.asyncio.portal import Portal
from sarameya.asyncio.session import Session
from sarameya.group import claim, handler, session
from sarameya.handling.handler_runner import HandlerRunner
from sarameya.handling.letters import FailedMessage
from sarameya.handling.message_options import MessageOptions
from sarameya.model import CommittedOffset, TopicPartition

T = TypeVar("T")


class _Bridge(handler.ConsumerGroupHandler):
    """Base class: all methods but `consume_claim`.

    Args:
        handler: The handler of asyncio.
        portal: The way to asyncio's thread.
    """

    def __init__(self, handler: ConsumerGroupHandler, portal: Portal) -> None:
        self._handler = handler
        self._portal = portal
        self._sessions: tuple[session.Session, Session] | None = None

    async def setup(self, session: session.Session) -> None:
        await self._call("setup", self._session(session))

    async def partitions_assigned(self, session: session.Session, partitions: Sequence[TopicPartition]) -> None:
        await self._call("partitions_assigned", self._session(session), partitions)

    async def partitions_revoked(self, session: session.Session, partitions: Sequence[TopicPartition]) -> None:
        await self._call("partitions_revoked", self._session(session), partitions)

    async def partitions_lost(self, session: session.Session, partitions: Sequence[TopicPartition]) -> None:
        await self._call("partitions_lost", self._session(session), partitions)

    async def cleanup(self, session: session.Session) -> None:
        await self._call("cleanup", self._session(session))

    async def start_offset(
        self, partition: TopicPartition, committed: CommittedOffset | None
    ) -> int | CommittedOffset | None:
        found: int | CommittedOffset | None = await self._call("start_offset", partition, committed)
        return found

    async def _call(self, name: str, *args: Any) -> Any:
        """Call a method of the handler, unless its class has none of its own: the loop may be blocked meanwhile."""
        if getattr(type(self._handler), name) is not getattr(ConsumerGroupHandler, name):
            method: Callable[..., Awaitable[Any]] = getattr(self._handler, name)
            return await self._portal.call_back(method, *args, name=f"{type(self._handler).__name__}.{name}")
        return None

    def _session(self, session: session.Session) -> Session:
        """Return the session as the handler gets it: the same object in all calls."""
        if self._sessions is None or self._sessions[0] is not session:
            self._sessions = session, Session(session, self._portal)
        return self._sessions[1]


class ClaimBridge(_Bridge):
    """Calls `consume_claim` of a handler of asyncio."""

    async def consume_claim(self, session: session.Session, claim: claim.Claim) -> None:
        name = f"{type(self._handler).__name__}.consume_claim of {claim.topic_partition}"
        args = self._session(session), Claim(claim, self._portal)
        await self._portal.call_back(self._handler.consume_claim, *args, name=name)


class MessageBridge(_Bridge, HandlerRunner):
    """Calls `handle`, or `handle_batch`, of a handler of asyncio: on its loop, or in threads for a plain `def`."""

    def __init__(self, handler: MessageHandler | BatchHandler, portal: Portal) -> None:
        super().__init__(handler, portal)
        self._message_handler = handler
        self._method = handler._method
        for name in MessageOptions.__annotations__:
            setattr(self, name, getattr(handler, name))
        if callable(letters := handler.dead_letters):
            self.dead_letters = self._on_asyncio(letters)

    @property
    def _called(self) -> Any:
        return self._message_handler

    @property
    def _batch(self) -> tuple[int, float] | None:
        return self._message_handler._batch

    async def _await_call(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        await self._portal.call_back(function, *args, name=f"{type(self._handler).__name__}.{self._method}")

    def _on_asyncio(self, letters: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        @functools.wraps(letters)  # events have the name of the user's function
        async def keep(failed: FailedMessage) -> None:
            await self._portal.call_back(letters, failed, name=f"{type(self._handler).__name__}.dead_letters")

        return keep


def bridge_to(handler: ConsumerGroupHandler, portal: Portal) -> handler.ConsumerGroupHandler:
    """Return the handler of trio that calls a handler of asyncio."""
    if isinstance(handler, MessageHandler | BatchHandler):
        return MessageBridge(handler, portal)
    return ClaimBridge(handler, portal)
