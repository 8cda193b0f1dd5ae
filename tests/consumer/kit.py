"""A broker whose answers are edited on their way out, for what a good broker never says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from sarameya.embedded import apis
from sarameya.embedded.apis import Call
from sarameya.protocol.versions import Api

Edit = Callable[[Any, Any], None]
"""Called with the request and its answer, which it may change in place."""


def edit_answers(monkeypatch: pytest.MonkeyPatch, api: Api, edit: Edit) -> None:
    """Let `edit` change every answer of `api` before it goes out."""
    handler = apis.HANDLERS[api]

    def answer(call: Call) -> None:
        def reply(response: Any) -> None:
            edit(call.body, response)
            call.reply(response)

        handler.answer(attrs.evolve(call, reply=reply))

    monkeypatch.setitem(apis.HANDLERS, api, attrs.evolve(handler, answer=answer))
