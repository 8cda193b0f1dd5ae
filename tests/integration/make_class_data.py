"""Create the archives of class data for the tests' JVMs: `python -m tests.integration.make_class_data`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sarameya_handlers.spark.shaping.shaping import Shaping
from sarameya_handlers.spark.tables.named import table_named
from tests.integration.class_data import DIRECTORY, archive_of
from tests.integration.connect_server import ConnectServer
from tests.integration.delta_stage import link
from tests.integration.lake_stage import KEY, found, landing_of, rows, rows_of
from tests.integration.lakes import lake_properties
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.cluster import GROUP_COMMAND
from tests.integration.real_kafka.jars import kafka_jars
from tests.integration.real_kafka.producing import produce

_DUMP_SECONDS = 300
_RECORD = "-XX:+RecordDynamicDumpInfo"


def main() -> None:
    if shutil.which("jcmd") is None:
        print("jcmd is missing (a JDK has it): the tests' JVMs start without archives of class data, and slowly")
        return
    shutil.rmtree(DIRECTORY, ignore_errors=True)  # a JVM that uses an archive cannot create another one
    DIRECTORY.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="class-data-") as directory:
        _archive_spark(Path(directory, "spark"))
        _archive_kafka(Path(directory, "kafka"))


def _archive_spark(directory: Path) -> None:
    """Archive the classes of a Connect server after the operations that most tests need."""
    plain = str(directory / "plain")
    properties = lake_properties(directory) | {"spark.driver.extraJavaOptions": _RECORD}
    with ConnectServer(directory, properties) as server:
        with server.session() as spark:
            spark.range(1000).selectExpr("id", "cast(id as string) as value").write.parquet(plain)
            assert spark.read.parquet(plain).groupBy("id").count().toArrow().num_rows == 1000
            for table in (table_named(f"delta:{directory / 'delta'}"), table_named("iceberg:ice.a.b")):
                table.open(spark)
                chain = [link(1, 0, 5), link(2, 5, 8)]
                for each in chain:
                    table.heads(spark, [KEY])
                    table.land(spark, [landing_of(table, each)], Shaping(), lambda phase, landings: None)
                assert found(spark, table) == [(each.number, each.attempt) for each in chain]
                assert rows(table.read(spark)) == rows_of(*chain)
                table.leftovers(spark)
        _archive(server.pid, "spark")


def _archive_kafka(directory: Path) -> None:
    """Archive the classes of a broker after a produce request and a listing of its groups."""
    os.environ["JDK_JAVA_OPTIONS"] = _RECORD
    with RealKafka(directory) as kafka:
        produce(kafka, kafka.create_topic("rows"), [b"row"])
        kafka.run_tool(GROUP_COMMAND, "--list")
        _archive(kafka.nodes[0].pid, kafka_jars().name)


def _archive(pid: int, program: str) -> None:
    """Archive the classes that a JVM has loaded."""
    archive = archive_of(program)
    command = ["jcmd", str(pid), "VM.cds", "dynamic_dump", str(archive)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DUMP_SECONDS, check=False)
    if not archive.exists():
        sys.exit(f"jcmd created no archive of class data for {program}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
