"""`sarameya run` and `sarameya broker` as real processes, with a broker over TCP. Every wait has a deadline."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sysconfig
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from sarameya.embedded import EmbeddedCluster, GroupState
from sarameya.protocol.versions import Api
from tests.integration.processes import on_terminal

pytestmark = pytest.mark.integration

SARAMEYA = str(Path(sysconfig.get_path("scripts"), "sarameya"))
DEADLINE = 30.0

HANDLERS = """
import time, trio
from sarameya import ConsumerGroupHandler

class Taking(ConsumerGroupHandler):
    async def consume_claim(self, session, claim):
        async for message in claim:
            print("took", message.value.decode(), flush=True)
            session.mark_message(message)

class Slow(ConsumerGroupHandler):
    "Runs on for a minute when its session ends."
    async def consume_claim(self, session, claim):
        async for message in claim:
            print("took", message.value.decode(), flush=True)
        with trio.CancelScope(shield=True):
            await trio.sleep(60)

class Hanging(ConsumerGroupHandler):
    async def consume_claim(self, session, claim):
        async for message in claim:
            print("took", message.value.decode(), flush=True)
            await trio.sleep_forever()

class Blocking(ConsumerGroupHandler):
    async def consume_claim(self, session, claim):
        async for message in claim:
            time.sleep(60)

class Failing(ConsumerGroupHandler):
    async def consume_claim(self, session, claim):
        async for message in claim:
            raise ValueError(f"cannot do {message.value.decode()}")

class Crashing(ConsumerGroupHandler):
    async def consume_claim(self, session, claim):
        async for message in claim:
            print("took", message.value.decode(), flush=True)
            session.mark_message(message)
            await session.commit()
            if message.value == b"deadly":
                import os, signal
                os.kill(os.getpid(), signal.SIGKILL)
"""


@attrs.frozen
class Running:
    """A `sarameya` process whose output goes to files."""

    process: trio.Process
    stdout_file: Path
    stderr_file: Path

    @property
    def stdout(self) -> list[str]:
        return self.stdout_file.read_text().splitlines()

    @property
    def stderr(self) -> str:
        return self.stderr_file.read_text()

    @property
    def log(self) -> list[dict[str, Any]]:
        """Return the log lines of a service that logs JSON; nothing else may be on its stderr."""
        return [json.loads(line) for line in self.stderr.splitlines()]

    async def until(self, condition: Callable[[Running], bool]) -> None:
        while not condition(self):
            assert self.process.returncode is None, self.stderr
            await trio.sleep(0.05)


@asynccontextmanager
async def sarameya(
    directory: Path, *arguments: str, stdin: int | None = None, deadline: float = DEADLINE
) -> AsyncIterator[Running]:
    """Run `sarameya ARGUMENTS` in `directory`, and kill it at the end if it still runs."""
    files = directory / "stdout", directory / "stderr"
    with files[0].open("wb") as stdout, files[1].open("wb") as stderr:
        process = await trio.lowlevel.open_process(
            [SARAMEYA, *arguments], cwd=directory, stdin=stdin, stdout=stdout, stderr=stderr
        )
    try:
        with trio.fail_after(deadline):
            yield Running(process, *files)
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()


def app_file(
    directory: Path, servers: list[str], *, handler: str = "handlers_of_this_test:Taking", extra: str = ""
) -> str:
    (directory / "handlers_of_this_test.py").write_text(HANDLERS)
    path = directory / "app.toml"
    path.write_text(
        f"""
        bootstrap_servers = {json.dumps(servers)}
        group = "g"
        topics = ["orders"]
        handler.name = "{handler}"
        [config]
        offset_initial = "oldest"
        bootstrap_timeout = 2.0
        {extra}
        """
    )
    return str(path)


def committed(cluster: EmbeddedCluster) -> int:
    return sum(offset.offset for offset in cluster.committed("g").values())


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_signal_ends_the_run_after_a_commit(tmp_path: Path, signum: int) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        for number in range(10):
            cluster.produce("orders", number % 2, b"value-%d" % number)
        async with sarameya(tmp_path, "run", app_file(tmp_path, cluster.bootstrap_servers)) as running:
            await running.until(lambda r: len(r.stdout) == 10)
            running.process.send_signal(signum)
            assert await running.process.wait() == 0
        assert committed(cluster) == 10
        assert cluster.describe_group("g").members == ()
    assert sorted(running.stdout) == [f"took value-{number}" for number in range(10)]
    assert {line["level"] for line in running.log} == {"INFO"}
    assert [line["message"] for line in running.log if "stopping" in line["message"]] == [
        f"{signal.Signals(signum).name}: stopping"
    ]


async def test_messages_are_not_logged_one_by_one(tmp_path: Path) -> None:
    count = 10_000
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        for number in range(count):
            cluster.produce("orders", number % 2, b"value")
        async with sarameya(tmp_path, "run", app_file(tmp_path, cluster.bootstrap_servers)) as running:
            await running.until(lambda r: len(r.stdout) == count)
            running.process.terminate()
            assert await running.process.wait() == 0
        assert committed(cluster) == count
    assert {"CoordinatorFound", "SessionStarted", "SessionEnding"} <= {line.get("event") for line in running.log}
    assert len(running.log) < 20, running.stderr


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_second_signal_exits_at_once_with_its_own_code(tmp_path: Path, signum: int, code: int) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"value")
        app = app_file(tmp_path, cluster.bootstrap_servers, handler="handlers_of_this_test:Slow")
        async with sarameya(tmp_path, "run", app) as running:
            await running.until(lambda r: r.stdout == ["took value"])
            running.process.send_signal(signum)
            await running.until(lambda r: "stopping" in r.stderr)
            running.process.send_signal(signum)
            with trio.fail_after(2):
                assert await running.process.wait() == code
    assert running.log[-1]["level"] == "WARNING"
    assert running.log[-1]["message"].startswith(f"{signal.Signals(signum).name}: exiting at once")


async def test_signal_during_a_join_ends_the_run_at_once(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers)
        (tmp_path / "other").mkdir()
        other_app = app_file(tmp_path / "other", cluster.bootstrap_servers, extra='client_id = "other"')
        async with sarameya(tmp_path / "other", "run", other_app) as other:
            await other.until(lambda r: cluster.describe_group("g").state is GroupState.STABLE)
            cluster.delay_next(Api.JOIN_GROUP, 60, half="request", client_id="other")
            async with sarameya(tmp_path, "run", app) as running:
                await running.until(lambda r: len(cluster.describe_group("g").members) == 2)
                assert cluster.describe_group("g").state is GroupState.PREPARING_REBALANCE
                running.process.terminate()
                with trio.fail_after(5):
                    assert await running.process.wait() == 0
            assert [member.client_id for member in cluster.describe_group("g").members] == ["other"]
    assert {line["level"] for line in running.log} == {"INFO"}


async def test_signal_without_a_broker_ends_the_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARAMEYA_CONFIG_BOOTSTRAP_TIMEOUT", "60")
    async with sarameya(tmp_path, "run", app_file(tmp_path, [f"127.0.0.1:{free_port()}"])) as running:
        await running.until(lambda r: "Connection refused" in r.stderr)
        running.process.terminate()
        with trio.fail_after(5):
            assert await running.process.wait() == 0


async def test_two_workers_share_the_partitions_and_both_leave(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers, extra="heartbeat_interval = 0.2")
        async with sarameya(tmp_path, "run", app, "--workers", "2") as running:
            await running.until(lambda r: len(cluster.describe_group("g").members) == 2)
            for number in range(10):
                cluster.produce("orders", number % 2, b"value")
            await running.until(lambda r: len(r.stdout) == 10)
            running.process.terminate()
            assert await running.process.wait() == 0
        assert committed(cluster) == 10
        assert cluster.describe_group("g").members == ()
    message = "stop requested by the supervisor: stopping"
    assert sorted(line["worker"] for line in running.log if line["message"] == message) == [1, 2]
    assert not [line for line in running.log if "end of input" in line["message"]]
    assert sorted(line["worker"] for line in running.log if "started (pid" in line["message"]) == [1, 2]


async def test_replaced_static_member_causes_no_rebalance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARAMEYA_CONFIG_GROUP_INSTANCE_ID", "pod-0")
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers)
        for number in range(2):
            cluster.produce("orders", 0, b"before")
            async with sarameya(tmp_path, "run", app) as running:
                await running.until(lambda r: "took before" in r.stdout)
                running.process.terminate()
                assert await running.process.wait() == 0
            assert running.stdout == ["took before"]  # and no message that the previous process has committed
            assert committed(cluster) == number + 1
            assert cluster.describe_group("g").state is GroupState.STABLE
        assert cluster.describe_group("g").generation == 1


async def test_two_members_in_one_process_share_the_partitions(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers, extra="heartbeat_interval = 0.2")
        async with sarameya(tmp_path, "run", app, "--workers", "2", "--in-process") as running:
            await running.until(lambda r: len(cluster.describe_group("g").members) == 2)
            running.process.terminate()
            assert await running.process.wait() == 0
        assert cluster.describe_group("g").members == ()
    assert "worker" not in running.stderr


async def test_dead_worker_is_restarted_if_configured(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        service = '[service]\non_failure = "restart"\nrestart_backoff = 0.1\nworkers = 2'
        app = app_file(
            tmp_path,
            cluster.bootstrap_servers,
            handler="handlers_of_this_test:Crashing",
            extra=f"session_timeout = 6.0\nheartbeat_interval = 0.2\n{service}",
        )
        async with sarameya(tmp_path, "run", app) as running:
            cluster.produce("orders", 0, b"deadly")
            await running.until(lambda r: "was killed by SIGKILL" in r.stderr)
            cluster.produce("orders", 0, b"harmless")
            await running.until(lambda r: "took harmless" in r.stdout)
            running.process.terminate()
            assert await running.process.wait() == 0
        assert committed(cluster) == 2


async def test_failing_handler_ends_the_run_with_its_location(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"this")
        app = app_file(tmp_path, cluster.bootstrap_servers, handler="handlers_of_this_test:Failing")
        async with sarameya(tmp_path, "run", app) as running:
            assert await running.process.wait() == 1
        assert cluster.describe_group("g").members == ()
    assert running.log[-1]["message"] == "orders-0 at offset 1, generation 1: ValueError: cannot do this"
    assert [line["level"] for line in running.log].count("ERROR") == 1
    assert "Traceback" not in running.stderr


async def test_debug_adds_the_traceback_as_one_field(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"this")
        app = app_file(tmp_path, cluster.bootstrap_servers, handler="handlers_of_this_test:Failing")
        async with sarameya(tmp_path, "run", app, "--debug") as running:
            assert await running.process.wait() == 1
    assert 'raise ValueError(f"cannot do {message.value.decode()}")' in running.log[-1]["traceback"]


async def test_log_format_option_precedes_the_app_file(tmp_path: Path) -> None:
    path = app_file(tmp_path, ["127.0.0.1:9"], extra='[service]\nlog_format = "text"')
    *_, last = (await stderr_of(tmp_path, "run", path, code=1)).splitlines()
    assert last.startswith("sarameya: error: no broker could be reached: 127.0.0.1:9: ")
    *_, last = (await stderr_of(tmp_path, "run", path, "--log-format", "json", code=1)).splitlines()
    assert json.loads(last)["message"].startswith("no broker could be reached: 127.0.0.1:9: ")


async def test_closed_standard_input_ends_the_run_in_order(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers)
        async with sarameya(tmp_path, "run", app, "--until-eof", stdin=subprocess.PIPE) as running:
            await running.until(lambda r: len(cluster.describe_group("g").members) == 1)
            assert running.process.stdin is not None
            await running.process.stdin.aclose()
            assert await running.process.wait() == 0
        assert cluster.describe_group("g").members == ()


async def test_watchdog_stops_a_handler_that_blocks_the_loop(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"value")
        app = app_file(
            tmp_path,
            cluster.bootstrap_servers,
            handler="handlers_of_this_test:Blocking",
            extra="rebalance_timeout = 1.5",
        )
        async with sarameya(tmp_path, "run", app) as running:
            assert await running.process.wait() == 1
    assert "handlers_of_this_test.py" in running.stderr
    assert "in consume_claim" in running.stderr


async def test_hanging_handler_is_logged_without_a_page(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        cluster.produce("orders", 1, b"value")
        app = app_file(
            tmp_path,
            cluster.bootstrap_servers,
            handler="handlers_of_this_test:Hanging",
            extra="claim_grace = 0.1\n[service]\nstall_after = 4.0",
        )
        async with sarameya(tmp_path, "run", app) as running:
            await running.until(lambda r: "no progress" in r.stderr)
            running.process.terminate()
            await running.process.wait()
    (line,) = [line for line in running.log if "no progress" in line["message"]]
    assert re.fullmatch(r"not ready: orders-1: no progress for \d+ s: in handler for \d+ s", line["message"])
    assert (line["level"], line["worker"], line["partition"]) == ("WARNING", 1, "orders-1")


async def test_blocked_worker_is_reported_by_its_supervisor(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        app = app_file(
            tmp_path,
            cluster.bootstrap_servers,
            handler="handlers_of_this_test:Blocking",
            extra="heartbeat_interval = 0.2",
        )
        async with sarameya(tmp_path, "run", app, "--workers", "2", deadline=60) as running:
            await running.until(lambda r: len(cluster.describe_group("g").members) == 2)
            cluster.produce("orders", 0, b"value")
            await running.until(lambda r: "has not reported" in r.stderr)
            running.process.terminate()
            await running.until(lambda r: "SIGTERM: stopping" in r.stderr)
            running.process.terminate()  # the second signal kills the worker, which is blocked
            assert await running.process.wait() == 143
    (line,) = [line for line in running.log if "has not reported" in line["message"]]
    assert re.fullmatch(r"not ready: worker [12]: it has not reported for \d+ s", line["message"])
    assert line["level"] == "WARNING"


async def test_watchdog_ends_a_handler_ignoring_cancellation(
    tmp_path: Path,
) -> None:
    async with EmbeddedCluster(topics={"orders": 1}) as cluster:
        cluster.produce("orders", 0, b"value")
        app = app_file(
            tmp_path,
            cluster.bootstrap_servers,
            handler="handlers_of_this_test:Slow",
            extra="close_timeout = 0.5",
        )
        async with sarameya(tmp_path, "run", app) as running:
            await running.until(lambda r: r.stdout == ["took value"])
            running.process.terminate()
            await running.until(lambda r: cluster.describe_group("g").members == ())
            assert await running.process.wait() == 1
    assert "claim of orders-0" in running.stderr
    assert "in consume_claim" in running.stderr


async def test_ctrl_c_on_a_terminal_drains_every_worker_quietly(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"orders": 2}) as cluster:
        app = app_file(tmp_path, cluster.bootstrap_servers, extra="heartbeat_interval = 0.2")
        async with on_terminal(tmp_path, SARAMEYA, "run", app, "--workers", "2") as running:
            with trio.fail_after(DEADLINE):
                while len(cluster.describe_group("g").members) < 2:
                    await trio.sleep(0.05)
                await running.ctrl_c()
                assert await running.ended() == 0
        assert cluster.describe_group("g").members == ()
    assert running.shown.count("SIGINT: stopping") == 1
    assert running.shown.count("stop requested by the supervisor: stopping") == 2
    assert running.shown.count(" worker=1 stop requested by the supervisor: stopping") == 1
    lines = running.shown.splitlines()
    assert all(re.match(r"(\^C)?[0-9: .-]{23} (INFO|WARNING) ", line) for line in lines), running.shown


SLOW_TO_IMPORT = """
import sys, time
from sarameya import ConsumerGroupHandler

if "--worker" in sys.argv:
    print("importing", flush=True)
    time.sleep(60)

class Slow(ConsumerGroupHandler):
    async def consume_claim(self, session, claim): ...
"""


async def test_ctrl_c_does_not_wait_for_workers_imports(tmp_path: Path) -> None:
    (tmp_path / "slow_to_import.py").write_text(SLOW_TO_IMPORT)
    app = app_file(tmp_path, ["127.0.0.1:9"], handler="slow_to_import:Slow")
    async with on_terminal(tmp_path, SARAMEYA, "run", app, "--workers", "2") as running:
        with trio.fail_after(DEADLINE):
            while running.shown.count("importing") < 2:
                await trio.sleep(0.05)
        await running.ctrl_c()
        with trio.fail_after(5):
            assert await running.ended() == 0
    assert running.shown.splitlines()[-1].endswith(" INFO    SIGINT: stopping")


# -- bad input -----------------------------------------------------------------------------------


async def errors_of(directory: Path, *arguments: str, code: int, within: float = 30.0) -> list[str]:
    """Return the errors that `sarameya` prints or logs before it ends with `code`."""
    lines = (await stderr_of(directory, *arguments, code=code, within=within)).splitlines()
    logged = [json.loads(line) for line in lines if line.startswith("{")]
    return [line.removeprefix("sarameya: error: ") for line in lines if line.startswith("sarameya: ")] + [
        line["message"] for line in logged if line["level"] == "ERROR"
    ]


async def stderr_of(directory: Path, *arguments: str, code: int, within: float = 30.0) -> str:
    async with sarameya(directory, *arguments) as running:
        with trio.fail_after(within):
            assert await running.process.wait() == code, running.stderr
    assert "Traceback" not in running.stderr
    return running.stderr


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def test_unreachable_broker_is_reported_with_its_address(tmp_path: Path) -> None:
    port = free_port()
    (error,) = await errors_of(tmp_path, "run", app_file(tmp_path, [f"127.0.0.1:{port}"]), code=1)
    assert error.startswith(f"no broker could be reached: 127.0.0.1:{port}: ")
    assert "Connection refused" in error
    assert error.endswith("start the broker, or correct bootstrap_servers")


async def test_server_that_is_no_broker_is_reported(tmp_path: Path) -> None:
    async def garbage(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, garbage, 0)
        port = listeners[0].socket.getsockname()[1]
        (error,) = await errors_of(tmp_path, "run", app_file(tmp_path, [f"127.0.0.1:{port}"]), code=1)
        nursery.cancel_scope.cancel()
    assert f"127.0.0.1:{port}" in error
    assert "is there a Kafka broker at this address?" in error


async def test_unknown_topic_is_reported_by_name(tmp_path: Path) -> None:
    async with EmbeddedCluster(topics={"others": 1}) as cluster:
        (error,) = await errors_of(tmp_path, "run", app_file(tmp_path, cluster.bootstrap_servers), code=1)
    assert error == "topic 'orders': UNKNOWN_TOPIC_OR_PARTITION (3); create the topic, or correct its name"


async def test_unknown_key_in_the_app_file_is_reported_at_once(tmp_path: Path) -> None:
    path = app_file(tmp_path, ["127.0.0.1:9092"], extra="sesion_timeout = 6.0")
    (error,) = await errors_of(tmp_path, "run", path, code=2)
    assert error.startswith(f"{path}: config.sesion_timeout = 6.0: no such option; did you mean 'session_timeout'?")


async def test_unwritable_directory_is_reported_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = app_file(tmp_path, ["127.0.0.1:9092"], handler="spark", extra="[handler.options]\npath = 'file/landing'")
    (error,) = await errors_of(tmp_path, "run", path, code=2)
    assert error.startswith(f"cannot land in {tmp_path}/file/landing: Not a directory")


async def test_wrong_handler_option_is_reported_once(tmp_path: Path) -> None:
    path = app_file(tmp_path, ["127.0.0.1:9092"], extra="[handler.options]\ncolour = 'red'")
    (error,) = await errors_of(tmp_path, "run", path, "--workers", "2", code=2)
    assert error.startswith(f"{path}: handler.options.colour = 'red': ")


# -- the broker ----------------------------------------------------------------------------------


async def test_broker_serves_kcat_until_a_signal(tmp_path: Path) -> None:
    port = free_port()
    async with sarameya(tmp_path, "broker", "--port", str(port), "--topic", "orders:4", "--topic", "a:1") as running:
        await running.until(lambda r: r.stdout == [f"sarameya broker: ready at 127.0.0.1:{port}"])
        listing = await trio.run_process(["kcat", "-b", f"127.0.0.1:{port}", "-L"], capture_stdout=True)
        assert 'topic "orders" with 4 partitions' in listing.stdout.decode()
        assert 'topic "a" with 1 partitions' in listing.stdout.decode()
        running.process.send_signal(signal.SIGINT)
        assert await running.process.wait() == 0
    assert "Traceback" not in running.stderr


async def test_broker_on_a_used_port_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (error,) = await errors_of(tmp_path, "broker", "--port", str(port), code=1)
    assert error == f"--host, --port = '127.0.0.1:{port}': cannot be listened at: Address already in use"
