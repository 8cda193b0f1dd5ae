"""Disks report when they were faulty: only then may another program's maintenance fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.chaos import disks
from tests.chaos.disks import Disk


async def test_disk_reports_when_it_was_read_only(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(disks, "_mount", lambda *arguments: None)
    monkeypatch.setattr(disks, "_unmount", lambda path: None)
    disk, began = Disk(tmp_path), trio.current_time()
    assert not disk.was_faulty_since(began)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(disk.stay_read_only, 5)
        nursery.start_soon(disk.stay_read_only, 20)
        await trio.sleep(10)
        assert disk.was_faulty_since(trio.current_time())
    ended = trio.current_time()
    await trio.sleep(1)
    assert disk.was_faulty_since(ended - 1)
    assert not disk.was_faulty_since(trio.current_time())
