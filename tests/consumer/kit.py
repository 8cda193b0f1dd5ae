"""Hooks into the embedded broker: observe requests, and change responses into what a correct broker never sends."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from sarameya.embedded import apis
from sarameya.embedded.apis import Call
from sarameya.protocol.versions import Api

Edit = Callable[[Any, Any], None]
"""Called with the request and its response, which it may change in place."""


def edit_answers(monkeypatch: pytest.MonkeyPatch, api: Api, edit: Edit, broker_id: int | None = None) -> None:
    """Let `edit` change every response of `api` before it is sent; with `broker_id`, only that broker's responses."""
    handler = apis.HANDLERS[api]

    def answer(call: Call) -> None:
        def reply(response: Any) -> None:
            if broker_id in (None, call.node_id):
                edit(call.body, response)
            call.reply(response)

        handler.answer(attrs.evolve(call, reply=reply))

    monkeypatch.setitem(apis.HANDLERS, api, attrs.evolve(handler, answer=answer))


def on_request(monkeypatch: pytest.MonkeyPatch, api: Api, callback: Callable[[Call], None]) -> None:
    """Call `callback` with every request of `api` before the broker answers it. It may change the body in place."""
    handler = apis.HANDLERS[api]

    def answer(call: Call) -> None:
        callback(call)
        handler.answer(call)

    monkeypatch.setitem(apis.HANDLERS, api, attrs.evolve(handler, answer=answer))


@attrs.define(slots=True)
class Fetches:
    """The Fetch requests that brokers have received, in order."""

    seen: list[tuple[int, Any]] = attrs.field(factory=list)
    """The broker and the body of each request."""
    versions: set[int] = attrs.field(factory=set)
    """The versions of all requests."""

    wanted: list[frozenset[int]] = attrs.field(factory=list)
    """All partitions of each request: named in it, or in an earlier request of its fetch session (KIP-227)."""
    _sessions: dict[int, frozenset[int]] = attrs.field(factory=dict)

    def note(self, node_id: int, version: int, body: Any) -> None:
        named = frozenset(p.partition for t in body.topics for p in t.partitions)
        forgotten = frozenset(number for t in body.forgotten_topics_data or () for number in t.partitions)
        is_full = body.session_epoch in (0, -1)
        before: frozenset[int] = frozenset() if is_full else self._sessions.get(node_id, frozenset())
        self._sessions[node_id] = before - forgotten | named
        self.wanted.append(self._sessions[node_id])
        self.seen.append((node_id, copy.deepcopy(body)))
        self.versions.add(version)

    def clear(self) -> None:
        """Forget the requests so far."""
        self.seen.clear()
        self.wanted.clear()

    def partitions(self, since: int = 0) -> list[list[int]]:
        """Return the partitions that each request names, from the request number `since` on."""
        return [[p.partition for t in body.topics for p in t.partitions] for _, body in self.seen[since:]]

    def full(self) -> list[list[int]]:
        """Return the partitions of each full request: one that starts a fetch session or has none."""
        bodies = [body for _, body in self.seen if body.session_epoch in (0, -1)]
        return [[p.partition for t in body.topics for p in t.partitions] for body in bodies]

    def of(self, partition: int) -> list[int]:
        """Return the brokers of all requests that name this partition."""
        return [
            node for node, body in self.seen if partition in {p.partition for t in body.topics for p in t.partitions}
        ]


def watch_fetches(monkeypatch: pytest.MonkeyPatch) -> Fetches:
    """Record every Fetch request that any broker receives from now on."""
    fetches = Fetches()
    on_request(monkeypatch, Api.FETCH, lambda call: fetches.note(call.node_id, call.version, call.body))
    return fetches
