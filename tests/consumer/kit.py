"""Requests that are looked at, and answers that are edited on their way out, for what a good broker never says."""

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
"""Called with the request and its answer, which it may change in place."""


def edit_answers(monkeypatch: pytest.MonkeyPatch, api: Api, edit: Edit, broker_id: int | None = None) -> None:
    """Let `edit` change every answer of `api` before it goes out; with `broker_id`, the answers of one broker."""
    handler = apis.HANDLERS[api]

    def answer(call: Call) -> None:
        def reply(response: Any) -> None:
            if broker_id in (None, call.node_id):
                edit(call.body, response)
            call.reply(response)

        handler.answer(attrs.evolve(call, reply=reply))

    monkeypatch.setitem(apis.HANDLERS, api, attrs.evolve(handler, answer=answer))


def on_request(monkeypatch: pytest.MonkeyPatch, api: Api, look: Callable[[Call], None]) -> None:
    """Show `look` every request of `api`, whose body it may change in place, before it is answered."""
    handler = apis.HANDLERS[api]

    def answer(call: Call) -> None:
        look(call)
        handler.answer(call)

    monkeypatch.setitem(apis.HANDLERS, api, attrs.evolve(handler, answer=answer))


@attrs.define(slots=True)
class Fetches:
    """The fetches that brokers were asked for, in their order: (broker, request), and which versions they were in."""

    seen: list[tuple[int, Any]] = attrs.field(factory=list)
    versions: set[int] = attrs.field(factory=set)

    wanted: list[frozenset[int]] = attrs.field(factory=list)
    """The partitions that each was about, whether it named them or a fetch session's earlier one did (KIP-227)."""
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
        """Keep only what comes from now on."""
        self.seen.clear()
        self.wanted.clear()

    def partitions(self, since: int = 0) -> list[list[int]]:
        """The partitions that each request named."""
        return [[p.partition for t in body.topics for p in t.partitions] for _, body in self.seen[since:]]

    def full(self) -> list[list[int]]:
        """The partitions of the requests that said everything, to begin a session or without one."""
        bodies = [body for _, body in self.seen if body.session_epoch in (0, -1)]
        return [[p.partition for t in body.topics for p in t.partitions] for body in bodies]

    def of(self, partition: int) -> list[int]:
        """The brokers that were asked for a partition by name."""
        return [
            node for node, body in self.seen if partition in {p.partition for t in body.topics for p in t.partitions}
        ]


def watch_fetches(monkeypatch: pytest.MonkeyPatch) -> Fetches:
    """Keep every fetch that comes to any broker from now on."""
    fetches = Fetches()
    on_request(monkeypatch, Api.FETCH, lambda call: fetches.note(call.node_id, call.version, call.body))
    return fetches
