"""Resources that a handler's class opens once for all workers, and their options in each worker."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sarameya import ConsumerGroupHandler, HandlerError
from sarameya.service.app.app_file import App, HandlerSection
from sarameya.service.process.shared_options import open_shared, to_environment, with_shared


class Plain(ConsumerGroupHandler):
    pass


class Sharing(ConsumerGroupHandler):
    events: list[str] = []

    @classmethod
    @asynccontextmanager
    async def open_shared(cls, options: Mapping[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
        cls.events.append("opened")
        try:
            yield {"address": f"{options['host']}:1", "more": {"token": "s3cret"}}
        finally:
            cls.events.append("closed")


def section(kind: type, **options: Any) -> HandlerSection:
    return HandlerSection(f"{__name__}:{kind.__name__}", options)


def app(**options: Any) -> App:
    return App(bootstrap_servers=("localhost:1",), group="g", handler=section(Sharing, **options), topics=("t",))


async def test_handler_without_shared_resources_has_no_environment() -> None:
    async with open_shared(section(Plain)) as options:
        assert to_environment(options) == {}


async def test_shared_resource_reaches_workers_by_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Sharing.events.clear()
    async with open_shared(section(Sharing, host="here")) as options:
        assert Sharing.events == ["opened"]
        for name, value in to_environment(options).items():
            monkeypatch.setenv(name, value)
    assert Sharing.events == ["opened", "closed"]
    worker = with_shared(app(host="here", address="none"))
    assert worker.handler.options == {"host": "here", "address": "here:1", "more": {"token": "s3cret"}}
    assert "s3cret" not in str(os.environ)


def test_worker_without_shared_options_uses_the_app_file() -> None:
    assert with_shared(app(host="here")) == app(host="here")


def test_missing_handler_is_reported() -> None:
    with pytest.raises(HandlerError, match="no handler is called 'no such'"):
        open_shared(HandlerSection("no such"))
