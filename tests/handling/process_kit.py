"""Handlers that run in their own processes, which import this module."""

from __future__ import annotations

import atexit
import os
import time
from pathlib import Path

from sarameya import Message, MessageHandler, Retry


class Writes(MessageHandler):
    """A handler that writes its process id to a file for each message. Each process counts in its own copy."""

    ordering = "none"
    processes = 2

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def handle(self, message: Message) -> None:
        self.count += 1
        (self.folder / str(message.offset)).write_text(str(os.getpid()))


class Fails(Writes):
    """A handler that fails in the way that the value names. The next attempt succeeds."""

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
    """A handler that returns only when a file `end` exists."""

    def handle(self, message: Message) -> None:
        (self.folder / f"begun-{message.offset}").write_text(str(os.getpid()))
        while not (self.folder / "end").exists():
            time.sleep(0.01)
        (self.folder / f"ended-{message.offset}").touch()


class Wrapped(Writes):
    """A handler whose plain function returns a coroutine."""

    def handle(self, message: Message):  # type: ignore[no-untyped-def]
        return _nothing()


async def _nothing() -> None: ...


class EndsWithAnError(Writes):
    def handle(self, message: Message) -> None:
        atexit.register(os._exit, 3)


class CannotBeLoaded(Writes):
    def __setstate__(self, state: object) -> None:
        raise RuntimeError("no configuration here")
