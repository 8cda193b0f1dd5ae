"""Handlers that run in processes of their own, which import this module."""

from __future__ import annotations

import atexit
import os
import time
from pathlib import Path

from sarameya import Message, MessageHandler, Retry


class Writes(MessageHandler):
    """Writes the process of each message to a file, and counts in its own copy."""

    ordering = "none"
    processes = 2

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def handle(self, message: Message) -> None:
        self.count += 1
        (self.folder / str(message.offset)).write_text(str(os.getpid()))


class Fails(Writes):
    """Fails in several ways, as the message says; the next attempt succeeds."""

    retry = Retry(attempts=100, backoff=0)

    def handle(self, message: Message) -> None:
        marker = self.folder / f"tried-{message.offset}"
        if marker.exists():
            return
        marker.write_text(str(os.getpid()))
        if message.value == b"raise":
            raise ValueError("wrong")
        if message.value == b"die":
            os._exit(3)
        while True:
            pass


class Slow(Writes):
    """Handles each message until there is a file `end`."""

    def handle(self, message: Message) -> None:
        (self.folder / f"begun-{message.offset}").write_text(str(os.getpid()))
        while not (self.folder / "end").exists():
            time.sleep(0.01)
        (self.folder / f"ended-{message.offset}").touch()


class Wrapped(Writes):
    """Returns a coroutine."""

    def handle(self, message: Message):  # type: ignore[no-untyped-def]
        return _nothing()


async def _nothing() -> None: ...


class EndsWithAnError(Writes):
    def handle(self, message: Message) -> None:
        atexit.register(os._exit, 3)


class CannotBeLoaded(Writes):
    def __setstate__(self, state: object) -> None:
        raise RuntimeError("no configuration here")
