"""Names in the tables of docs/coming-from-*.md exist, in Sarameya and in the other client, and the programs run."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

import sarameya
from sarameya import Config, ConsumerGroup
from sarameya.embedded import EmbeddedCluster
from sarameya.service.app.app_file import App, ServiceSection, load_app
from sarameya.service.cli.commands import BUILT_IN
from sarameya.testing import run_inline, virtual_wall_clock
from sarameya_handlers import SparkSink
from tests.docs import check_sarama_names
from tests.docs.name_tables import rows
from tests.docs.pages import DOCS, blocks, page
from tests.group.kit import deadline, eventually, fill, orders
from tests.producer.kit import values

CLIENTS = ["sarama", "kafka-python", "aiokafka", "confluent-kafka"]
FRAMEWORKS = ["faststream", "parallel-consumer", "spring-kafka"]
SOURCES = [*CLIENTS, *FRAMEWORKS, "spark", "kafka-connect"]
MODULES = [import_module(name) for name in ("sarameya", "sarameya.testing", "sarameya_handlers", "sarameya.observe")]
OPTIONS = {field.name for kind in (Config, App, ServiceSection) for field in attrs.fields(kind)}
SINK = set(inspect.signature(SparkSink.__init__).parameters) | {"value_format"}
COMMANDS = {*BUILT_IN, *(entry.name for entry in entry_points(group="sarameya.commands"))}
ABSENT = object()


def is_sarameya_name(name: str) -> bool:
    if name.startswith("sarameya "):
        return name.split()[1] in COMMANDS
    if name in OPTIONS or name in SINK:
        return True
    owner, _, member = name.partition(".")
    found = next((getattr(module, owner) for module in MODULES if owner in module.__all__), None)
    if found is None or not member:
        return found is not None
    in_constructor = member in inspect.signature(found).parameters
    return hasattr(found, member) or in_constructor or member in getattr(found, "__struct_fields__", ())


def is_kafka_python_name(name: str) -> bool:
    import kafka
    from kafka.consumer.group import KafkaConsumer

    return resolves(name, [kafka]) or name in KafkaConsumer.DEFAULT_CONFIG


def is_aiokafka_name(name: str) -> bool:
    import aiokafka

    return resolves(name, [aiokafka]) or name in inspect.signature(aiokafka.AIOKafkaConsumer).parameters


def is_confluent_name(name: str) -> bool:
    import confluent_kafka
    import confluent_kafka.admin

    if name[0].isupper():
        return resolves(name, [confluent_kafka, confluent_kafka.admin])
    try:
        confluent_kafka.Consumer({"group.id": "g", name: "no such value"})
    except confluent_kafka.KafkaException as error:
        return "No such configuration property" not in str(error)
    return True


SPARK_OPTIONS = {"subscribe", "subscribePattern", "assign", "startingOffsets", "startingTimestamp", "failOnDataLoss"}
SPARK_OPTIONS |= {"groupIdPrefix", "maxOffsetsPerTrigger", "minPartitions", "includeHeaders", "checkpointLocation"}
"""Options of Spark's Kafka source, which Python cannot look up, from Spark 4.1's guide to Kafka."""


def is_spark_name(name: str) -> bool:
    import pyspark.sql.avro.functions
    import pyspark.sql.functions
    import pyspark.sql.streaming

    if name in SPARK_OPTIONS or name.startswith("kafka."):
        return True
    if name == "processingTime":
        return name in inspect.signature(pyspark.sql.streaming.DataStreamWriter.trigger).parameters
    modules = [pyspark.sql.streaming, pyspark.sql.functions, pyspark.sql.avro.functions]
    return resolves(name, modules)


def resolves(name: str, modules: list[Any]) -> bool:
    owner, *members = name.split(".")
    found = next((getattr(module, owner) for module in modules if hasattr(module, owner)), ABSENT)
    for member in members:
        found = getattr(found, member, ABSENT)
    return found is not ABSENT


SARAMA = set(check_sarama_names.NAMES.read_text(encoding="ascii").splitlines()[1:])


def is_sarama_name(name: str) -> bool:
    """Return whether Go's compiler has found the name (`python -m tests.docs.check_sarama_names`)."""
    return name in SARAMA


CONNECT = {"connector.class", "name", "topics", "topics.regex", "tasks.max", "key.converter", "value.converter"}
CONNECT |= {"transforms", "errors.tolerance", "errors.retry.timeout", "offset.flush.interval.ms"}
CONNECT |= {"errors.deadletterqueue.topic.name", "errors.deadletterqueue.context.headers.enable"}
CONNECT |= {"consumer.override.auto.offset.reset", "consumer.override.isolation.level"}
CONNECT |= {f"SinkTask.{method}" for method in ("put", "open", "close", "preCommit")}
CONNECT |= {f"SinkTaskContext.{method}" for method in ("offset", "pause", "resume", "timeout")}
"""Properties and methods of Kafka Connect 4.1 (connect-runtime and connect-api), looked up in its jars."""


def is_kafka_connect_name(name: str) -> bool:
    return name in CONNECT


FASTSTREAM = {"AckPolicy", "FastStream", "KafkaBroker", "KafkaMessage", "TestKafkaBroker", "NackMessage", "Depends"}
FASTSTREAM |= {"ExceptionMiddleware", "BaseMiddleware", "KafkaPrometheusMiddleware", "KafkaTelemetryMiddleware"}
FASTSTREAM |= {"Context", "Header", "FastStream.run", "FastStream.on_startup", "FastStream.on_shutdown"}
FASTSTREAM |= {f"KafkaBroker.{method}" for method in ("subscriber", "publisher", "publish", "request")}
FASTSTREAM |= {f"AckPolicy.{name}" for name in ("ACK_FIRST", "ACK", "REJECT_ON_ERROR", "NACK_ON_ERROR", "MANUAL")}
FASTSTREAM |= {"KafkaMessage.ack", "KafkaMessage.nack", "group_id", "group_instance_id", "ack_policy", "max_workers"}
FASTSTREAM |= {"batch", "max_records", "batch_timeout_ms", "pattern", "partitions", "decoder", "value_deserializer"}
FASTSTREAM |= {"auto_offset_reset", "max_poll_interval_ms", "listener"}
"""Names of FastStream 0.7.8 with its `kafka` extra, looked up in the installed package."""

PARALLEL = {
    "ParallelConsumerOptions",
    "ParallelStreamProcessor",
    "PollContext",
    "ProcessingOrder",
    "ProcessingOrder.KEY",
}
PARALLEL |= {f"ParallelStreamProcessor.{method}" for method in ("createEosStreamProcessor", "poll")}
PARALLEL |= {f"ParallelStreamProcessor.{method}" for method in ("pollAndProduce", "pollAndProduceMany")}
PARALLEL |= {f"ParallelConsumer.{method}" for method in ("subscribe", "pauseIfRunning", "resumeIfPaused")}
PARALLEL |= {f"ParallelConsumer.{method}" for method in ("closeDrainFirst", "closeDontDrainFirst")}
PARALLEL |= {f"PollContext.{method}" for method in ("getSingleConsumerRecord", "value")}
PARALLEL |= {f"RecordContext.{method}" for method in ("getNumberOfFailedAttempts", "getLastFailureReason")}
PARALLEL |= {f"CommitMode.PERIODIC_{mode}" for mode in ("CONSUMER_SYNC", "CONSUMER_ASYNCHRONOUS")}
PARALLEL |= {
    "ProcessingOrder.KEY",
    "CommitMode.PERIODIC_TRANSACTIONAL_PRODUCER",
    "PCRetriableException",
    "consumer",
    "ordering",
}
PARALLEL |= {"maxConcurrency", "batchSize", "commitInterval", "defaultMessageRetryDelay", "retryDelayProvider"}
PARALLEL |= {"messageBufferSize", "shutdownTimeout", "drainTimeout", "meterRegistry"}
PARALLEL |= {"thresholdForTimeSpendInQueueWarning"}
"""Names of Parallel Consumer 0.5.3.3, looked up in its source."""

SPRING = {"KafkaListener", "RetryableTopic", "BackOff", "DltHandler", "DefaultErrorHandler", "ConsumerSeekAware"}
SPRING |= {f"KafkaListener.{name}" for name in ("topics", "groupId", "concurrency")}
SPRING |= {f"RetryableTopic.{name}" for name in ("attempts", "backOff", "include", "autoCreateTopics")}
SPRING |= {"RetryableTopic.retryTopicSuffix", "RetryableTopic.dltTopicSuffix", "KafkaTemplate", "EmbeddedKafka"}
SPRING |= {f"BackOff.{name}" for name in ("delay", "multiplier", "maxDelay")}
SPRING |= {"ConcurrentMessageListenerContainer", "FixedBackOff", "ExponentialBackOffWithMaxRetries"}
SPRING |= {"DefaultErrorHandler.addNotRetryableExceptions", "DeadLetterPublishingRecoverer", "RecordInterceptor"}
SPRING |= {"CommonContainerStoppingErrorHandler", "JacksonJsonDeserializer", "ErrorHandlingDeserializer"}
SPRING |= {"KafkaHeaders.DLT_ORIGINAL_TOPIC", "KafkaHeaders.DLT_EXCEPTION_MESSAGE", "ConsumerAwareRebalanceListener"}
SPRING |= {"Acknowledgment.acknowledge", "ContainerProperties.asyncAcks", "ContainerProperties.shutdownTimeout"}
SPRING |= {"AckMode.RECORD", "AckMode.BATCH", "MessageListenerContainer.pause", "RecordFilterStrategy"}
SPRING |= {"MessageListenerContainer.pausePartition", "BatchListenerFailedException", "ReplyingKafkaTemplate"}
"""Names of Spring for Apache Kafka 4.1.1 (and Spring's FixedBackOff), looked up in its source."""

CHECKERS = {
    "sarama": is_sarama_name,
    "kafka-python": is_kafka_python_name,
    "aiokafka": is_aiokafka_name,
    "confluent-kafka": is_confluent_name,
    "spark": is_spark_name,
    "kafka-connect": is_kafka_connect_name,
    "faststream": FASTSTREAM.__contains__,
    "parallel-consumer": PARALLEL.__contains__,
    "spring-kafka": SPRING.__contains__,
}
VERSIONS = {"faststream": "0.7.8", "parallel-consumer": "0.5.3.3", "spring-kafka": "4.1.1"}
VERSIONS |= {name: version(name) for name in ("aiokafka", "confluent-kafka")}


def test_every_page_has_a_checker() -> None:
    pages = {path.stem.removeprefix("coming-from-") for path in DOCS.glob("coming-from-*.md")}
    assert pages == set(SOURCES)


@pytest.mark.parametrize("source", SOURCES)
def test_names_of_sarameya_exist(source: str) -> None:
    names = {name for _, ours, _ in rows(page(f"coming-from-{source}")) for name in ours}
    assert len(names) > 15
    assert {name for name in names if not is_sarameya_name(name)} == set()


@pytest.mark.parametrize("source", SOURCES)
def test_names_in_the_differences_exist(source: str) -> None:
    names = {name for _, _, differs in rows(page(f"coming-from-{source}")) for name in differs}
    named = {name for name in names if re.fullmatch(r"sarameya \w+|[A-Za-z]\w*[._A-Z][\w.]*|[A-Z]\w+", name)}
    assert len(named) >= 3
    assert {name for name in named if not is_sarameya_name(name) and not CHECKERS[source](name)} == set()


@pytest.mark.parametrize("source", SOURCES)
def test_every_row_has_a_name_of_sarameya(source: str) -> None:
    assert [theirs for theirs, ours, _ in rows(page(f"coming-from-{source}")) if theirs and not ours] == []


def test_sarama_names_match_the_benchmarked_version() -> None:
    written = check_sarama_names.NAMES.read_text().splitlines()[0]
    assert written == f"# {check_sarama_names.version()}", "run: python -m tests.docs.check_sarama_names"


@pytest.mark.parametrize("source", CHECKERS)
def test_names_of_the_other_client_exist(source: str) -> None:
    names = {name for theirs, _, _ in rows(page(f"coming-from-{source}")) for name in theirs} - {"group_id"}
    assert len(names) > 15
    assert {name for name in names if not CHECKERS[source](name)} == set()


@pytest.mark.parametrize("source", VERSIONS)
def test_page_states_the_version_of_the_other_client(source: str) -> None:
    assert re.search(rf" {re.escape(VERSIONS[source])}\b(?!\.\d)", page(f"coming-from-{source}"))


@pytest.mark.parametrize("source", FRAMEWORKS)
def test_names_in_the_table_of_missing_features_exist(source: str) -> None:
    [table] = re.findall(r"^\| [^|]+ \| instead \|\n\|-.*\n((?:\|.*\n)+)", page(f"coming-from-{source}"), re.MULTILINE)
    for line in table.splitlines():
        theirs, ours = (re.findall("`([^`]+)`", cell) for cell in line.strip("|").split("|"))
        assert [name for name in theirs if not CHECKERS[source](name.partition("=")[0])] == []
        assert [name for name in ours if not is_sarameya_name(name) and name != "handle"] == []


def test_program_of_faststream_has_its_names() -> None:
    tree = ast.parse(blocks(page("coming-from-faststream"), "python")[0])
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports if "faststream" in str(node.module) for alias in node.names}
    names |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    assert {"KafkaBroker", "group_id", "ack_policy"} <= names <= FASTSTREAM


def test_program_of_spring_kafka_has_its_names() -> None:
    [program] = blocks(page("coming-from-spring-kafka"), "java")
    annotations = re.findall(r"@(\w+)", program)
    attributes = re.findall(r"@(\w+)\(|(\w+) = ", program)
    assert set(annotations) == {"RetryableTopic", "BackOff", "KafkaListener", "DltHandler"}
    assert {name for _, name in attributes if name} <= {name.rpartition(".")[2] for name in SPRING}


def test_program_of_parallel_consumer_has_its_names() -> None:
    [program] = blocks(page("coming-from-parallel-consumer"), "java")
    names = {name for name in re.findall(r"\b[A-Z]\w+|\.([a-z]\w+)\(", program) if name}
    known = {part for name in PARALLEL for part in name.split(".")}
    assert {"createEosStreamProcessor", "maxConcurrency"} <= names <= known | {"builder", "build", "of"}


@pytest.mark.parametrize("name", ["ConsumerGroup.nothing", "Nothing", "nothing", "sarameya nothing", "Claim.seek"])
def test_unknown_name_of_sarameya_is_detected(name: str) -> None:
    assert not is_sarameya_name(name)


@pytest.mark.parametrize("source", CHECKERS)
def test_unknown_name_of_another_client_is_detected(source: str) -> None:
    assert not CHECKERS[source]("no.such.option")
    assert not CHECKERS[source]("Consumer.nothing")


def run_main(
    cluster: EmbeddedCluster, program: str, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, **names: Any
) -> list[ConsumerGroup]:
    """Start the program's `main`, and return the list of its groups."""
    made: list[ConsumerGroup] = []

    def group(bootstrap_servers: list[str], name: str, config: Config) -> ConsumerGroup:
        made.append(
            ConsumerGroup(
                bootstrap_servers,
                name,
                config,
                transport=cluster.transport,
                run_sync=run_inline,
                wall_clock=virtual_wall_clock,
            )
        )
        return made[0]

    monkeypatch.setattr(sarameya, "ConsumerGroup", group)
    monkeypatch.setattr("trio.to_thread.run_sync", inline)
    exec(program, names)
    nursery.start_soon(names["main"], cluster.bootstrap_servers)
    return made


@pytest.mark.parametrize("source", CLIENTS)
async def test_program_reads_all_and_commits(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with orders(2) as cluster, deadline() as nursery:
        fill(cluster, 10, 0)
        fill(cluster, 20, 1)
        program = "\n".join(blocks(page(f"coming-from-{source}"), "python"))
        made = run_main(cluster, program, nursery, monkeypatch)
        await eventually(lambda: sum(one.offset for one in cluster.committed("orders").values()) == 30)
        await made[0].close()
    assert capsys.readouterr().out.count("\n") == (30 if source == "kafka-python" else 0)


@pytest.mark.parametrize("source", FRAMEWORKS)
async def test_program_retries_orders_and_keeps_bad_ones(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    good = [b'{"customer": "ann", "cents": %d}' % number for number in range(29)]
    bad = b"\xff"  # neither JSON nor text
    kept: list[bytes | None] = []
    tried: list[str] = []

    async def book(self: Any, order: Any) -> None:
        await trio.sleep(1)
        tried.append(str(order))
        if tried.count(str(order)) == 1 and "28" in str(order):
            raise OSError("no answer")

    async with orders(2) as cluster, deadline(7200) as nursery:
        for number, order in enumerate([*good, bad]):
            cluster.produce("orders", number % 2, order, key=b"%d" % (number % 5))
        program = blocks(page(f"coming-from-{source}"), "python")[-1]
        assert program.count("    async def book(self, order): ...\n") == 1
        program = program.replace("async def book(self, order): ...", "book = book")
        made = run_main(
            cluster, program, nursery, monkeypatch, book=book, print=lambda value, error: kept.append(value)
        )
        await eventually(lambda: len(tried) == 30)
        await eventually(
            lambda: sum(done.offset for at, done in cluster.committed("billing").items() if at.topic == "orders") == 30
        )
        await made[0].close()
        if source != "spring-kafka":
            kept += values(cluster, 0, "orders.billing.dead")
    assert kept == [bad]


async def inline(function: Callable[..., Any], *arguments: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return function(*arguments)


SPARK = """
import sys

import trio

{program}

from sarameya.embedded import EmbeddedCluster


async def main() -> None:
    async with EmbeddedCluster(topics={{"orders": 2}}) as cluster, trio.open_nursery() as nursery:
        for number in range(10):
            cluster.produce("orders", number % 2, b"order %d" % number, key=b"ann")
        nursery.start_soon(land, cluster.bootstrap_servers, sys.argv[1])
        while sum(one.offset for one in cluster.committed("orders-landing").values()) < 10:
            await trio.sleep(0.1)
        nursery.cancel_scope.cancel()


trio.run(main)
"""


@pytest.mark.integration
def test_program_lands_the_rows_of_the_transform(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    [program] = blocks(page("coming-from-spark"), "python")
    assert "max_age=30.0" in program
    (tmp_path / "land.py").write_text(SPARK.format(program=program.replace("max_age=30.0", "max_age=0.5")))
    command = [sys.executable, str(tmp_path / "land.py"), str(tmp_path / "table")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    landed = pq.read_table(tmp_path / "table")
    assert sorted(landed["text"].to_pylist()) == [f"order {number}" for number in range(10)]
    assert set(landed["customer"].to_pylist()) == {"ann"}


@pytest.mark.parametrize("source", ["spark", "kafka-connect"])
def test_app_file_is_valid(tmp_path: Path, source: str) -> None:
    [text] = blocks(page(f"coming-from-{source}"), "toml")
    (tmp_path / "landing.toml").write_text(text)
    app = load_app(tmp_path / "landing.toml")
    options = tomllib.loads(text)["handler"]["options"]
    assert (app.group, app.handler.options) == ("orders-landing", options)
    SparkSink.from_options(app.handler.options)
