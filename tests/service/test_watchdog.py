from __future__ import annotations

import subprocess
import sys

BLOCKED = """
import time, trio
from sarameya.service.watchdog import watch
async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, 0.2)
        await trio.sleep(1)  # the loop turns: longer than the timeout, and nothing happens
        print("turned", flush=True)
        blocking_the_loop()
def blocking_the_loop():
    time.sleep(60)
trio.run(main)
"""
ENDED = """
import time, trio
from sarameya.service.watchdog import watch
async def main():
    with trio.move_on_after(0.1):
        await watch(0.2)
trio.run(main)
time.sleep(0.5)
print("alive")
"""


def test_blocked_loop_ends_the_process_with_its_stack() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert done.stdout == "turned\n"
    assert "in blocking_the_loop" in done.stderr


def test_watch_that_was_cancelled_ends_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")
