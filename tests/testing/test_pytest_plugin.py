"""The pytest plugin as users get it: found by its entry point, in a separate pytest run."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from tests.testing.user_project import Project

HANDLER = """
    from sarameya import ConsumerGroupHandler

    class Counts(ConsumerGroupHandler):
        def __init__(self):
            self.values = []

        async def consume_claim(self, session, claim):
            async for message in claim:
                self.values.append(message.value)
                session.mark_message(message)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def with_handler(test: str) -> str:
    return dedent(HANDLER) + dedent(test)


GROUP = """
    import time
    import pytest
    import trio

    @pytest.mark.sarameya({"orders": 2}, brokers=2)
    async def test_group_reads_all(sarameya_clock, sarameya_cluster, sarameya_group):
        for number in range(10):
            sarameya_cluster.produce("orders", number % 2, b"%d" % number)
        counts, began = Counts(), time.monotonic()
        async with sarameya_group("g") as group, trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, ["orders"], counts)
            while len(counts.values) < 10:
                await trio.sleep(WAIT)
            group.close_nowait()
        assert sum(offset.offset for offset in sarameya_cluster.committed("g").values()) == 10
        assert time.monotonic() - began < AT_MOST
"""


def test_group_runs_in_virtual_time_or_over_tcp_in_real_time(project: Project) -> None:
    project.passes(with_handler(GROUP).replace("WAIT", "3600").replace("AT_MOST", "3600"))
    project.passes(with_handler(GROUP).replace("WAIT", "0.1").replace("AT_MOST", "60"), "--sarameya=tcp")


def test_memory_cluster_without_a_clock_fails_the_test(project: Project) -> None:
    output = project.fails(
        with_handler("""
        import pytest

        async def test_without_a_clock(sarameya_cluster):
            pass
    """)
    )
    assert "sarameya_cluster is in memory and needs a mock clock" in output
    assert "`async def test_without_a_clock(sarameya_clock, ...)`" in output
    output = project.fails(
        with_handler("""
        import pytest

        @pytest.mark.usefixtures("autojump_clock")
        async def test_with_a_clock_of_a_fixture(sarameya_cluster):
            pass
    """)
    )
    assert "pytest-trio accepts a clock only as an argument of the test itself" in output


def test_missing_clock_is_reported_with_the_test_function(project: Project) -> None:
    output = project.fails(
        with_handler("""
        import pytest

        @pytest.mark.parametrize("number", [1])
        async def test_numbered(number, sarameya_cluster):
            pass
    """)
    )
    assert "`async def test_numbered(sarameya_clock, ...)`" in output


@pytest.mark.parametrize("fixture", ["sarameya_cluster", "sarameya_tcp_cluster"])
def test_other_event_loop_is_refused(project: Project, fixture: str) -> None:
    test = """
        import pytest

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_elsewhere(anyio_backend, FIXTURE):
            pass
    """
    output = project.fails(with_handler(test).replace("FIXTURE", fixture), "-o", "trio_mode=false")
    assert f"{fixture} needs trio, but test_elsewhere runs on another event loop: run it with pytest-trio" in output


def test_cluster_over_tcp_refuses_a_jumping_clock(project: Project) -> None:
    test = """
        async def test_that_jumps(autojump_clock, FIXTURE):
            pass
    """
    for options, fixture in ((["--sarameya=tcp"], "sarameya_cluster"), ([], "sarameya_tcp_cluster")):
        output = project.fails(with_handler(test).replace("FIXTURE", fixture), *options)
        assert f"{fixture} uses TCP and real time, but this test has a mock clock" in output


def test_tcp_cluster_is_reachable_by_other_programs(project: Project) -> None:
    project.passes(
        with_handler("""
        import socket
        import pytest
        import trio

        @pytest.mark.sarameya({"orders": 1})
        async def test_port_is_open(sarameya_tcp_cluster):
            host, port = sarameya_tcp_cluster.bootstrap_servers[0].rsplit(":", 1)
            stream = await trio.open_tcp_stream(host, int(port))
            await stream.aclose()
    """)
    )


def test_unused_faults_fail_the_test(project: Project) -> None:
    test = """
        import pytest
        import trio
        from sarameya.testing import Api, ErrorCode

        @pytest.mark.sarameya({"orders": 1})
        async def test_faults(sarameya_clock, sarameya_faults, sarameya_group):
            sarameya_faults.produce("orders", 0, b"1")
            sarameya_faults.fail_next(Api.OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, TIMES)
            counts = Counts()
            async with sarameya_group() as group, trio.open_nursery() as nursery:
                nursery.start_soon(group.consume, ["orders"], counts)
                await trio.sleep(60)
                group.close_nowait()
            assert sarameya_faults.committed("test")
    """
    project.passes(with_handler(test).replace("TIMES", "2"))
    output = project.fails(with_handler(test).replace("TIMES", "2").replace("OFFSET_COMMIT", "DELETE_TOPICS"))
    assert "these faults were set up, but did not occur: Fault(api=<Api.DELETE_TOPICS" in output


def test_same_seed_makes_equal_runs(project: Project) -> None:
    test = """
        import pytest
        import trio

        @pytest.mark.sarameya({"orders": 1})
        async def test_ids(sarameya_clock, sarameya_cluster, sarameya_group):
            async with sarameya_group() as group, trio.open_nursery() as nursery:
                nursery.start_soon(group.consume, ["orders"], Counts())
                await trio.sleep(60)
                (member,) = sarameya_cluster.describe_group("test").members
                group.close_nowait()
            print("member", member.member_id)
    """

    def member(*options: str) -> list[str]:
        done = project.run(with_handler(test), "-s", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return [line for line in done.stdout.splitlines() if "member" in line]

    assert member() == member("--sarameya-seed=0") != member("--sarameya-seed=1")


def test_same_seed_makes_equal_feeds(project: Project) -> None:
    test = """
        import trio
        from sarameya.testing import ErrorCode

        async def test_retries(autojump_clock, claim_feed):
            feed = claim_feed()
            feed.send(b"1")
            feed.fail_commits(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 5)
            feed.end()
            await feed.run(Counts())
            print("seconds", round(trio.current_time(), 3))
    """

    def seconds(*options: str) -> list[str]:
        done = project.run(with_handler(test), "-s", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return re.findall(r"seconds [\d.]+", done.stdout)

    assert seconds() == seconds("--sarameya-seed=0") != seconds("--sarameya-seed=1") != []


def test_feeds_need_no_clock(project: Project) -> None:
    project.passes(
        with_handler("""
        async def test_handler(claim_feed):
            feed, counts = claim_feed("orders"), Counts()
            feed.send(b"1")
            feed.end()
            await feed.run(counts)
            assert (counts.values, feed.committed) == ([b"1"], 1)
    """)
    )


def test_plugin_alone_does_not_import_the_package(project: Project) -> None:
    (project.tests / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (project.tests / "test_other.py").write_text(
        "import sys\n\n\ndef test_nothing_is_imported(pytestconfig):\n"
        "    assert pytestconfig.pluginmanager.hasplugin('sarameya')\n"
        "    assert not {'sarameya', 'kafka', 'numpy', 'pyarrow'} & sys.modules.keys()\n"
    )
    done = project.pytest()
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_help_lists_the_options_and_the_marker(project: Project) -> None:
    assert "--sarameya={memory,tcp}" in project.run("", "--help").stdout
    assert "@pytest.mark.sarameya(topics, brokers=1" in project.run("", "--markers").stdout


PRODUCER = """
    import pytest
    import trio

    @pytest.mark.sarameya({"orders": 1})
    async def test_producer_and_threads(sarameya_clock, sarameya_cluster, sarameya_group, sarameya_producer):
        counts = Counts()
        async with sarameya_group("g") as group, sarameya_producer() as producer, trio.open_nursery() as nursery:
            nursery.start_soon(group.consume, ["orders"], counts)
            assert await producer.send("orders", b"1") == (0, 0)
            while not counts.values:
                await trio.sleep(0.1)
            with trio.fail_after(10):
                await trio.to_thread.run_sync(__import__("time").sleep, 0.1)
            group.close_nowait()
"""


@pytest.mark.parametrize("option", ["memory", "tcp"])
def test_producer_sends_and_threads_take_no_virtual_time(project: Project, option: str) -> None:
    project.passes(with_handler(PRODUCER), f"--sarameya={option}")
