"""Java: Kafka's own ConsumerPerformance, run by this program, which translates its output.

It prints no time of a first message. Instead the time runs from its first assignment to its last message, which
includes the first fetch (milliseconds). Its CPU time is that of the whole program, with the start of its JVM. It prints
bytes to a ten thousandth of a mebibyte, and does not check CRCs. The JVM has its defaults, and the heap that Kafka's
script gives it.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
from datetime import datetime

from bench.consume.programs.reading import Outcome, Task
from tests.integration.real_kafka.jars import KAFKA_VERSION, kafka_jars
from tests.integration.real_kafka.node import java_program

_MAIN = "org.apache.kafka.tools.ConsumerPerformance"
_MEBIBYTE = 2**20
_DATE = "%Y-%m-%d %H:%M:%S:%f"


def main(task: Task) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as properties:
        properties.write("enable.auto.commit=true\n")  # the client's default, not this program's
        properties.flush()
        done = subprocess.run(_command(task, properties.name), stdout=subprocess.PIPE, text=True, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = read_line(
        done.stdout.splitlines()[-1],
        cpu_seconds=used.ru_utime + used.ru_stime,
        peak_rss_bytes=used.ru_maxrss * 1024,
    )
    print(outcome.to_json(), flush=True)


def _command(task: Task, properties: str) -> list[str]:
    # English number format, regardless of the machine's locale.
    options = ["-Xmx512m", "-Duser.language=en", "-Duser.country=US", "-cp", f"{kafka_jars()}/*"]
    arguments = ["--bootstrap-server", task.bootstrap, "--topic", task.topic, "--group", task.group]
    arguments += ["--messages", str(task.messages), "--consumer.config", properties, "--hide-header"]
    return [java_program(), *options, _MAIN, *arguments]


def read_line(line: str, *, cpu_seconds: float, peak_rss_bytes: int) -> Outcome:
    """Return the outcome in ConsumerPerformance's last line. Raises ValueError for another line."""
    start, end, mebibytes, _, messages, _, _, fetch_milliseconds, _, _ = line.split(", ")
    elapsed = datetime.strptime(end, _DATE) - datetime.strptime(start, _DATE)
    return Outcome(
        messages=int(messages),
        bytes=round(float(mebibytes) * _MEBIBYTE),
        bytes_within=_MEBIBYTE // 10_000,
        seconds=int(fetch_milliseconds) / 1000,
        seconds_from_start=elapsed.total_seconds(),
        reading_cpu_seconds=cpu_seconds,
        cpu_seconds=cpu_seconds,
        peak_rss_bytes=peak_rss_bytes,
        version=KAFKA_VERSION,
    )


if __name__ == "__main__":
    main(Task.of_command_line())
