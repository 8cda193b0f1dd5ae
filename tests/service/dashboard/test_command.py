"""`sarameya dashboard`, called with an unreachable cluster."""

from __future__ import annotations

import argparse

import pytest
import trio

from sarameya.service.dashboard import command
from sarameya.service.process.signals import Stop


async def test_address_is_printed_once(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "sarameya")
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    args = parser.parse_args(["--group", "g", "--bootstrap", "127.0.0.1:1", "--http", "127.0.0.1:0"])
    stop = Stop()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(command._serve, args, "g", command.cluster(args), stop)
            out = ""
            while not out:
                await trio.lowlevel.checkpoint()
                out = capsys.readouterr().out
            stop.request("the test")
    assert out.startswith("sarameya dashboard: http://127.0.0.1:")
    assert [record.message for record in caplog.records if "http://" in record.message] == []
