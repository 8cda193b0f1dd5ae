"""Member programs, run as a benchmark runs them."""

from __future__ import annotations

import json
import sys

import pytest
import trio

from bench.members.protocol import MemberTask
from bench.members.rounds import leaves
from bench.members.running import Member, MemberError, open_member, open_program

pytestmark = pytest.mark.integration

PRELUDE = """
import json, signal, sys, time
def report(event, **fields):
    print(json.dumps({"event": event, "at": 0.0, **fields}), flush=True)
"""
MANY = 50_000
"""Messages; the list of their sequences is longer than the buffer of a pipe."""
IN_ORDER = """
signal.signal(signal.SIGTERM, lambda *_: (report("done", others=5), sys.exit(0)))
report("loaded", rss_bytes=1)
report("assigned", partitions=2)
report("assigned", partitions=4)
while True: time.sleep(60)
"""


def command(code: str) -> list[str]:
    return [sys.executable, "-c", PRELUDE + code]


async def failure_of(code: str, seconds: float = 60.0) -> str:
    """Return the error of a member that does not report `done` as expected."""
    with pytest.RaisesGroup(pytest.RaisesExc(MemberError)) as caught:
        async with open_member(command(code)) as member:
            await member.until(lambda: bool(member.reports("done")), "done", seconds)
    [raised] = leaves(caught.value)
    return str(raised)


async def test_member_reports_its_assignment_and_its_result() -> None:
    async with open_member(command(IN_ORDER)) as member:
        await member.assigned(4)
        done = await member.end()

    assert [line.event for line in member.lines] == ["loaded", "assigned", "assigned", "done"]
    assert done.others == 5


async def test_long_last_report_is_not_interrupted_by_progress() -> None:
    task = MemberTask("", "t", "g", 1, is_stamped=True, report_seconds=0.0005).to_json()
    code = f"""
sys.argv[1:] = [{task!r}]
from bench.members.programs.reporter import Reporter
from bench.members.stamps import stamped
reporter = Reporter("attrs")
for sequence in range({MANY}): reporter.handle(0, stamped(sequence, 16))
reporter.assigned(1)
while True: time.sleep(60)
"""
    async with open_member(command(code)) as member:
        await member.assigned(1)
        done = await member.end()

    assert done.sequences == tuple(range(MANY))


async def test_member_is_killed_at_the_end_of_its_block() -> None:
    async with open_member(command(IN_ORDER)) as member:
        await member.assigned(4)

    assert member.process.returncode == -9


async def test_member_that_ends_early_fails_with_its_output() -> None:
    assert await failure_of("sys.exit('no\\nbroker')") == "ended with 1: broker"


async def test_member_that_reports_nothing_has_failed() -> None:
    assert await failure_of("time.sleep(60)", seconds=0.3) == "did not report done within 0.3 s: no message"


async def test_member_that_prints_something_else_has_failed() -> None:
    reason = await failure_of("print('Traceback'); time.sleep(60)")

    assert reason.startswith("printed b'Traceback', which is not a report")


async def test_line_that_arrives_in_parts_is_read_as_one() -> None:
    code = 'sys.stdout.write(\'{"event": \'); sys.stdout.flush(); time.sleep(0.2); print(\'"done", "at": 1.0}\')'
    async with open_member(command(code)) as member:
        await member.until(lambda: bool(member.reports("done")), "done")

    assert isinstance(member, Member)
    assert member.lines[0].at == 1.0


@pytest.mark.parametrize(("code", "reason"), [("0", None), ("3", "ended with 3: no message")])
async def test_program_that_stops_with_an_error_raises(code: str, reason: str | None) -> None:
    body = f"signal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))\nreport('ready')\nwhile True: time.sleep(60)"
    failures: list[str] = []
    try:
        async with open_program(command(body), json.loads) as program:
            await program.until(lambda: bool(program.lines), "ready")
            with trio.fail_after(60):
                await program.stop()
    except* MemberError as raised:
        failures += map(str, leaves(raised))

    assert failures == ([] if reason is None else [reason])
