"""Launch of the JVM behind pyspark's gateway, and the end of its process. Blocking.

pyspark could launch the JVM, but in the process group of this process. A signal from a terminal or supervisor would
then kill the JVM before the last flush, and nothing could end a JVM that is starting. However this process ends, even
by SIGKILL, the JVM's standard input closes, and the JVM exits. Until it reads its standard input, the guard watches it
(guard.py).
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

from sarameya_handlers.spark.engines.jvm.guard import JvmGuard, guarded_directory
from sarameya_handlers.spark.engines.jvm.output import JvmOutput
from sarameya_handlers.spark.engines.jvm.scratch import remove_abandoned
from sarameya_handlers.spark.engines.jvm.start_failures import exit_error
from sarameya_handlers.spark.engines.requirements import require_java
from sarameya_handlers.spark.errors import SparkStartError

logger = logging.getLogger("sarameya.spark")

END_TIMEOUT = 10.0
"""Seconds for a JVM to end by itself before it is killed."""
ANSWER_TIMEOUT = 300.0
"""Seconds for a JVM to respond. Starts of 150 seconds have been seen on a busy machine."""
FAILED_TIMEOUT = 5.0
"""Seconds for a JVM to end after its main thread failed. Without space for its file (a full /tmp), it does not end."""
_POLL_INTERVAL = 0.05


def launch(
    conf: Iterable[tuple[str, str]],
    output: JvmOutput,
    environment: Mapping[str, str],
    on_launched: Callable[[subprocess.Popen[bytes]], None],
    check: Callable[[], None],
) -> Any:
    """Launch a JVM. Return pyspark's gateway to it.

    The gateway's `proc` is the process. Call its `remove_files` after the process has ended.

    Args:
        conf: Spark properties.
        output: Reads the JVM's output.
        environment: Environment variables in addition to ours.
        on_launched: Called with the process as soon as it exists.
        check: Called repeatedly until the JVM responds. May raise.

    Raises:
        HandlerError: A person must change something first. The text is the JVM's own.
        SparkStartError: Any other failure. The text is the JVM's own.
    """
    try:
        require_java()
        remove_abandoned(check)
        with ExitStack() as stack:
            guard = stack.enter_context(guarded_directory())
            # The JVM writes the file under another name, and renames it when it is complete.
            answer = guard.directory / "gateway"
            process = _start(conf, output, {**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer)}, guard)
            try:
                guard.watch(process)
                on_launched(process)
                is_late = not _has_answered(answer, process, output, check)
                if is_late:
                    process.kill()
                gateway = _connect(answer) if not is_late and process.poll() is None else None
                if gateway is not None:
                    guard.unwatch()
                    gateway.proc, gateway.remove_files = process, stack.pop_all().close
                    output.start_logging()
                    return gateway
            except BaseException:
                process.kill()
                end_process(process)
                raise
            end_process(process)
    except OSError as error:  # no space for temporary files, no memory for another process, no file descriptor
        raise SparkStartError(f"Spark's JVM is not started: {error}") from error
    finally:
        os.close(output.write_end)
    if is_late:
        errors = output.last_errors()
        raise SparkStartError(f"Spark's JVM has neither answered nor ended and was killed: {errors}")
    raise exit_error(process.returncode, output.last_errors())


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Close the JVM's standard input, which makes it end, and wait for END_TIMEOUT at most."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(END_TIMEOUT)
    except subprocess.TimeoutExpired:
        logger.warning("Spark's JVM does not end within %.0f s and is killed", END_TIMEOUT)
        process.kill()
        process.wait()


def _has_answered(answer: Path, process: subprocess.Popen[bytes], output: JvmOutput, check: Callable[[], None]) -> bool:
    """Wait until the JVM has responded or ended. Return False if it has done neither in time."""
    deadline = time.monotonic() + ANSWER_TIMEOUT
    while not answer.exists() and process.poll() is None:
        if output.main_has_failed:
            deadline = min(deadline, time.monotonic() + FAILED_TIMEOUT)
        if time.monotonic() > deadline:
            return False
        check()
        time.sleep(_POLL_INTERVAL)
    return True


def _start(
    conf: Iterable[tuple[str, str]], output: JvmOutput, environment: Mapping[str, str], guard: JvmGuard
) -> subprocess.Popen[bytes]:
    from pyspark.find_spark_home import _find_spark_home

    home = _find_spark_home()  # type: ignore[no-untyped-call]
    command = [str(Path(home, "bin", "spark-submit"))]
    command += [argument for key, value in conf for argument in ("--conf", f"{key}={value}")]
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
    """Return a UTF-8 locale, unless there is one: in another locale, a JVM cannot name a file `city=Köln`."""
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    return {} if locale.upper().endswith(("UTF-8", "UTF8")) else {"LC_ALL": "C.UTF-8"}


def _options(temporary: Path) -> str:
    """Return the JVM's options, which put its and Spark's temporary files into that directory.

    The user's settings take precedence: the environment, `spark.driver.extraJavaOptions`, `spark.local.dir` and
    SPARK_LOCAL_DIRS.
    """
    quoted = str(temporary).replace("\\", "\\\\").replace('"', '\\"')
    return f'"-Djava.io.tmpdir={quoted}" {os.environ.get("SPARK_SUBMIT_OPTS", "")}'


def _connect(answer: Path) -> Any:
    from pyspark.java_gateway import launch_gateway
    from pyspark.serializers import UTF8Deserializer, read_int

    with answer.open("rb") as file:
        port = read_int(file)  # type: ignore[no-untyped-call]
        secret = UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
    # spark-submit hands a running JVM to pyspark by these variables.
    variables = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(variables)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in variables:
            del os.environ[name]
