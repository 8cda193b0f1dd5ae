from __future__ import annotations

import subprocess
import sys

BLOCKED = """
import time, trio
from sarameya.service.process.watchdog import Watchdog
async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Watchdog(0.2).run)
        await trio.sleep(1)  # the loop runs for longer than the timeout, and nothing happens
        print("running", flush=True)
        blocking_the_loop()
def blocking_the_loop():
    time.sleep(60)
trio.run(main)
"""
ENDED = """
import time, trio
from sarameya.service.process.watchdog import Watchdog
async def main():
    with trio.move_on_after(0.1):
        await Watchdog(0.2).run()
trio.run(main)
time.sleep(0.5)
print("alive")
"""

STUCK = """
import trio
from sarameya.observe import TaskStuck
from sarameya.service.process.watchdog import Watchdog
async def main():
    watchdog = Watchdog(60, leave_time=0.2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watchdog.run)
        watchdog.observe(TaskStuck("claim of orders-0", "its stack"))
        await trio.sleep(0.05)  # time to leave the group
        print("left", flush=True)
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()
trio.run(main)
"""


def test_blocked_loop_ends_the_process_with_its_stack() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert done.stdout == "running\n"
    assert "in blocking_the_loop" in done.stderr


def test_cancelled_watchdog_does_not_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "alive\n", "")


def test_stuck_task_ends_the_process_after_the_leave() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, "left\n")
