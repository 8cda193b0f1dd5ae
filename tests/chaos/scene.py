"""The cluster, disks and services of a chaos run, and the violations found so far."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import trio

from tests.chaos.disks import Disk
from tests.chaos.plan import SERVICES
from tests.chaos.producer import ChaosProducer
from tests.chaos.services import App, Service, ServiceExit
from tests.chaos.watch import Watch
from tests.integration.connect_server import ConnectServer
from tests.integration.lakes import ICEBERG_CATALOG, lake_properties
from tests.integration.outcome import Outcome
from tests.integration.peers.running import ROOT
from tests.integration.real_kafka import RealKafka

TOPIC = "chaos"
PARTITIONS = 6
DISK_MEGABYTES = 1024
COMMAND_SECONDS = 180.0
CONFIGURATION = 2
"""The exit code of a service for an error that a person must fix. No fault here may cause it."""

_TRANSFORM = 'transform_sql = "select topic, partition, offset, key, value, timestamp from batch"'
_ICEBERG = {
    # Each metadata file lists all earlier ones and all snapshots. So only ten files and an hour's snapshots are kept.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    "history.expire.max-snapshot-age-ms": "3600000",
}


@attrs.define
class Scene:
    """The parts of a run that faults act on."""

    seed: int
    directory: Path
    kafka: RealKafka
    server: ConnectServer
    producer: ChaosProducer
    services: Mapping[str, Service]
    disks: Mapping[str, Disk]
    tables: Mapping[str, Path]
    tmp: Disk
    watch: Watch
    iceberg: str
    """The name of Iceberg's table."""
    violations: list[str]
    last_codes: dict[str, int]
    """The exit code of each service's latest process that has ended."""
    server_changes: trio.Lock = attrs.field(factory=trio.Lock)
    """Held while the Connect server is killed and started: two faults may overlap."""

    def log(self, text: str) -> None:
        """Print a line, and append it to `run.txt` in the run's directory."""
        line = f"{self.watch.now():8.1f}  {text}"
        print(line, flush=True)
        self._append("run.txt", line)

    def add_violation(self, text: str) -> None:
        self.violations.append(f"at {self.watch.now():.1f} s: {text}")
        self.log(f"VIOLATION: {text}")

    def on_service_end(self, end: ServiceExit) -> None:
        """Record the exit code of a service's process; code 2 is a violation."""
        cause = "after SIGTERM" if end.was_requested else "by itself"
        self.log(f"{end.service} ended with {end.code}, {cause} ({end.log.name})")
        self.last_codes[end.service] = end.code
        if end.code == CONFIGURATION:
            self.add_violation(f"{end.service} ended with exit code 2: {_last_line(end.log)}")

    async def command(self, name: str, *arguments: str, component: str = "parquet") -> Outcome:
        """Run `sarameya NAME TABLE ARGUMENTS` on a component's table, and append its output to `commands.log`."""
        service = self.services[component]
        command = [sys.executable, "-m", "sarameya.service", name, service.app.table, *service.app.spark, *arguments]
        done = await trio.run_process(
            ["timeout", "--signal=KILL", str(COMMAND_SECONDS), *command],
            env=service.environment,
            cwd=ROOT,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        outcome = Outcome.of(done)
        if outcome.code == CONFIGURATION:
            self.add_violation(f"{name} ended with exit code 2: {outcome.err.strip()[-200:]}")
        self._append("commands.log", f"$ {name} {component}: {outcome.code}\n{outcome.out}{outcome.err}")
        return outcome

    def _append(self, name: str, text: str) -> None:
        with Path(self.directory, name).open("a", encoding="utf-8") as file:
            file.write(text + "\n")


@contextmanager
def scene(seed: int, directory: Path) -> Iterator[Scene]:
    """Start the cluster and the Connect server. The services start when their `keep_running` runs."""
    rng = random.Random(f"{seed} scene")
    with ExitStack() as stack:
        disks = {component: Disk.mount(directory / component, DISK_MEGABYTES) for component in SERVICES}
        properties = {"min.insync.replicas": "2", "group.initial.rebalance.delay.ms": "1000"}
        kafka = stack.enter_context(RealKafka(directory / "kafka", brokers=3, properties=properties))
        kafka.create_topic(TOPIC, PARTITIONS)
        server = stack.enter_context(_iceberg_server(directory, disks["iceberg"].path))
        services = {}
        for app in _apps(rng, disks, server):
            file = directory / f"{app.name}.toml"
            app.write(file, kafka.bootstrap_servers, TOPIC)
            services[app.name] = Service(app, file, f"{directory.name}-{time.time_ns()}")
        groups = {name: service.app.group for name, service in services.items()}
        yield Scene(
            seed=seed,
            directory=directory,
            kafka=kafka,
            server=server,
            producer=ChaosProducer(",".join(kafka.bootstrap_servers), TOPIC, PARTITIONS, seed),
            services=services,
            disks=disks,
            tables={
                "parquet": disks["parquet"].path / "orders",
                "delta": disks["delta"].path / "orders",
                "iceberg": disks["iceberg"].path / "iceberg" / "db" / "orders",
            },
            tmp=Disk(Path("/tmp")),
            watch=Watch(kafka.bootstrap_servers, groups, trio.current_time()),
            iceberg=f"{ICEBERG_CATALOG}.db.orders",
            violations=[],
            last_codes={},
        )


def _apps(rng: random.Random, disks: Mapping[str, Disk], server: ConnectServer) -> Iterator[App]:
    """Yield the three services. The seed chooses their assignment strategies, and whether Spark transforms records."""
    small = {"spark.driver.memory": "512m", "spark.ui.enabled": "false"}
    delta = disks["delta"].path
    for name, table, master, conf in (
        ("parquet", f"parquet:{disks['parquet'].path}/orders", "local[1]", small),
        ("delta", f"delta:{delta}/orders", "local[1]", {**lake_properties(delta), **small}),
        ("iceberg", f"iceberg:{ICEBERG_CATALOG}.db.orders", server.url, {}),
    ):
        strategy = rng.choice(("range", "cooperative-sticky"))
        extra_options = rng.choice(("", _TRANSFORM))
        workers, age = (2, 4.0) if name == "parquet" else (1, 15.0 if name == "iceberg" else 4.0)
        yield App(name, table, master, conf, strategy, workers, age, extra_options)


def _iceberg_server(directory: Path, warehouse: Path) -> ConnectServer:
    defaults = {f"spark.sql.catalog.{ICEBERG_CATALOG}.table-default.{key}": value for key, value in _ICEBERG.items()}
    properties = {**lake_properties(warehouse), **defaults, "spark.driver.memory": "1g"}
    # A killed server leaves files. In /tmp they would be reported as files of a service.
    tmp = directory / "server-tmp"
    tmp.mkdir()
    properties |= {"spark.local.dir": str(tmp), "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={tmp}"}
    return ConnectServer(directory / "server", properties)


def _last_line(log: Path) -> str:
    """Return the last error that the command line printed, else the last line of the log."""
    lines = log.read_text(errors="replace").strip().splitlines() or [""]
    return next((line for line in reversed(lines) if line.startswith("sarameya: error")), lines[-1])
