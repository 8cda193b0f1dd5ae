"""Launches the JVM that pyspark's gateway runs in, and ends its process. Blocking.

pyspark would launch it by itself, but in our process group, where the signal that asks us to stop (a terminal's, a
supervisor's) kills it before the last landing; and nobody could end it as long as it starts. However we end, also by
SIGKILL, the JVM sees its standard input end and exits; until it looks there, jvm_guard.py has it.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sarameya_handlers.spark.engines.java import require_java
from sarameya_handlers.spark.engines.jvm_guard import Guard, guarding
from sarameya_handlers.spark.engines.jvm_output import Output
from sarameya_handlers.spark.engines.scratch import remove_abandoned
from sarameya_handlers.spark.engines.start_failures import of_exit
from sarameya_handlers.spark.errors import SparkStartError

logger = logging.getLogger("sarameya.spark")

END_TIMEOUT = 10.0
"""Seconds for a JVM to end by itself before it is killed."""
ANSWER_TIMEOUT = 300.0
"""Seconds for a JVM to answer. Starts of 150 seconds were seen, on a machine with much else to do."""
FAILED_TIMEOUT = 5.0
"""Seconds for a JVM to end whose main thread has failed. One without a place for its answer (a full /tmp) lives on."""
_LOOK_AGAIN = 0.05


def launch(
    conf: Iterable[tuple[str, str]],
    output: Output,
    environment: Mapping[str, str],
    launched: Callable[[subprocess.Popen[bytes]], None],
    check: Callable[[], None],
) -> Any:
    """pyspark's gateway to a new JVM, whose process is its `proc`; its `leave` is to be called when that has ended, and
    removes what it has left. Raises HandlerError or SparkStartError in the JVM's
    own words.

    `launched` is told of the process at once; as long as it does not answer, `check` is called, and may raise.
    """
    try:
        require_java()
        remove_abandoned(check)
        with ExitStack() as stack:
            guard = stack.enter_context(guarding())
            # The JVM gives the file its name when all is in it.
            answer = guard.directory / "gateway"
            process = _start(conf, output, {**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer)}, guard)
            try:
                guard.watch(process)
                launched(process)
                is_late = not _has_answered(answer, process, output, check)
                if is_late:
                    process.kill()
                gateway = _connected(answer) if not is_late and process.poll() is None else None
                if gateway is not None:
                    guard.has_started()
                    gateway.proc, gateway.leave = process, stack.pop_all().close
                    output.launched()
                    return gateway
            except BaseException:
                process.kill()
                end_process(process)
                raise
            end_process(process)
    except OSError as error:  # no place for temporary files, no memory for another process, no file descriptor
        raise SparkStartError(f"Spark's JVM is not started: {error}") from error
    finally:
        os.close(output.write_end)
    if is_late:
        told = output.complaints()
        raise SparkStartError(f"Spark's JVM has neither answered nor ended and was killed: {told}")
    raise of_exit(process.returncode, output.complaints())


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Close the JVM's standard input, which it takes for the end, and wait for it: END_TIMEOUT at most."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(END_TIMEOUT)
    except subprocess.TimeoutExpired:
        logger.warning("Spark's JVM does not end within %.0f s and is killed", END_TIMEOUT)
        process.kill()
        process.wait()


def _has_answered(answer: Path, process: subprocess.Popen[bytes], output: Output, check: Callable[[], None]) -> bool:
    """Wait until the JVM has answered or ended. Return False for one that has done neither in time."""
    deadline = time.monotonic() + ANSWER_TIMEOUT
    while not answer.exists() and process.poll() is None:
        if output.main_has_failed:
            deadline = min(deadline, time.monotonic() + FAILED_TIMEOUT)
        if time.monotonic() > deadline:
            return False
        check()
        time.sleep(_LOOK_AGAIN)
    return True


def _start(
    conf: Iterable[tuple[str, str]], output: Output, environment: Mapping[str, str], guard: Guard
) -> subprocess.Popen[bytes]:
    from pyspark.find_spark_home import _find_spark_home

    home = _find_spark_home()  # type: ignore[no-untyped-call]
    command = [str(Path(home, "bin", "spark-submit"))]
    command += [word for key, value in conf for word in ("--conf", f"{key}={value}")]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    return subprocess.Popen(
        command,
        env={
            **os.environ,
            **_locale(),
            "SPARK_CONNECT_MODE": "0",
            "SPARK_SUBMIT_OPTS": _options(guard.directory),
            **environment,
        },
        stdin=subprocess.PIPE,
        stdout=output.write_end,
        stderr=output.write_end,
        process_group=0,
        pass_fds=(guard.owner,),
    )


def _locale() -> dict[str, str]:
    """A locale of UTF-8, unless there is one: a JVM cannot name a file `city=Köln` in another one."""
    told = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    return {} if told.upper().endswith(("UTF-8", "UTF8")) else {"LC_ALL": "C.UTF-8"}


def _options(temporary: Path) -> str:
    """The JVM's options: its temporary files, and with them Spark's, are in that directory. Others have the last word:
    the environment, `spark.driver.extraJavaOptions`, `spark.local.dir` and SPARK_LOCAL_DIRS."""
    quoted = str(temporary).replace("\\", "\\\\").replace('"', '\\"')
    return f'"-Djava.io.tmpdir={quoted}" {os.environ.get("SPARK_SUBMIT_OPTS", "")}'


def _connected(answer: Path) -> Any:
    from pyspark.java_gateway import launch_gateway
    from pyspark.serializers import UTF8Deserializer, read_int

    with answer.open("rb") as told:
        port = read_int(told)  # type: ignore[no-untyped-call]
        secret = UTF8Deserializer().loads(told)  # type: ignore[no-untyped-call]
    # The way in which spark-submit tells pyspark of a JVM that is there.
    there = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(there)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in there:
            del os.environ[name]
