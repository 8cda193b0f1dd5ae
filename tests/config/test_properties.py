"""Options given by Kafka's property names. Each name is mapped or refused, and none is ignored."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest

from sarameya import ClientProperties, Config, PropertiesError, Secret
from sarameya.config import ClientValues
from sarameya.config.kafka_names import ALWAYS, ELSEWHERE, GIVEN_APART, MEANINGLESS, UNSUPPORTED
from sarameya.config.properties import from_properties
from sarameya.option_kinds import MOST_SECONDS, secret

GOLDEN = Path(__file__).parent / "golden" / "kafka_names.txt"
KAFKAS = {line.split("\t")[0] for line in GOLDEN.read_text(encoding="ascii").splitlines()}
MAPPED = {field.metadata["kafka"]: field.name for field in attrs.fields(Config) if field.metadata["kafka"]}
JAAS = "sasl.jaas.config"
"""The property that sets two options."""
TABLES = [MAPPED, ALWAYS, GIVEN_APART, UNSUPPORTED, MEANINGLESS, [JAAS]]

BEFORE_4 = {"auto.include.jmx.reporter"}
"""Properties of clients before 4.0 that 4.1 does not have."""


def problems_of(properties: dict[str, Any]) -> list[str]:
    with pytest.raises(PropertiesError) as caught:
        Config.from_properties(properties)
    assert str(caught.value) == "\n".join(caught.value.problems)
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems
    return list(caught.value.problems)


# -- the names -------------------------------------------------------------------------------------


def test_all_kafka_names_are_listed_once() -> None:
    names = [name for table in TABLES for name in table]
    assert len(names) == len(set(names))
    assert set(names) == KAFKAS | BEFORE_4


@pytest.mark.parametrize("name", sorted(KAFKAS))
def test_no_kafka_name_is_unknown_or_ignored(name: str) -> None:
    required = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    if name == "ssl.key.password":
        required["ssl.keystore.location"] = "me.pem"
    try:
        config = Config.from_properties(required | {name: "no such value"})
    except PropertiesError as error:
        [problem] = error.problems
        assert problem.startswith(f"{name} = ")
        assert "is not a property" not in problem
    else:
        value = getattr(config, MAPPED[name])
        assert (value.reveal() if isinstance(value, Secret) else value) == "no such value"


def test_hints_name_kafka_properties() -> None:
    assert set(ELSEWHERE.values()) <= KAFKAS
    assert not ELSEWHERE.keys() & KAFKAS


# -- the values ------------------------------------------------------------------------------------

VALUES: dict[str, tuple[Any, Any]] = {
    "client.id": ("me", "me"),
    "socket.connection.setup.timeout.ms": ("10000", 10.0),
    "request.timeout.ms": ("30500", 30.5),
    "retry.backoff.ms": ("50", 0.05),
    "retry.backoff.max.ms": ("1000", 1.0),
    "metadata.max.age.ms": ("9223372036854775807", MOST_SECONDS),
    "session.timeout.ms": (45000, 45.0),
    "heartbeat.interval.ms": (" 2000 ", 2.0),
    "max.poll.interval.ms": ("2147483647", MOST_SECONDS),
    "partition.assignment.strategy": (
        "org.apache.kafka.clients.consumer.RangeAssignor, org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        ("range", "cooperative-sticky"),
    ),
    "group.instance.id": ("pod-0", "pod-0"),
    "client.rack": ("eu-1a", "eu-1a"),
    "fetch.min.bytes": ("1024", 1024),
    "fetch.max.wait.ms": ("500", 0.5),
    "fetch.max.bytes": ("1000000", 1_000_000),
    "max.partition.fetch.bytes": (2**20, 2**20),
    "isolation.level": ("read_committed", "read_committed"),
    "check.crcs": ("FALSE", False),
    "auto.offset.reset": ("earliest", "oldest"),
    "enable.auto.commit": (False, False),
    "auto.commit.interval.ms": ("5000", 5.0),
    "delivery.timeout.ms": ("60000", 60.0),
    "batch.size": ("16384", 16384),
    "max.request.size": ("1048576", 2**20),
    "compression.type": ("zstd", "zstd"),
    "security.protocol": ("SASL_SSL", "SASL_SSL"),
    "sasl.mechanism": ("SCRAM-SHA-256", "SCRAM-SHA-256"),
    "ssl.truststore.location": ("ca.pem", "ca.pem"),
    "ssl.keystore.location": ("me.pem", "me.pem"),
    "ssl.key.password": ("sesame", Secret("sesame")),
    "ssl.endpoint.identification.algorithm": ("", False),
}
REQUIRED = {
    "ssl.truststore.type": "PEM",
    "ssl.keystore.type": "PEM",
    JAAS: 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="x";',
}
"""Properties required by those of `VALUES`."""


ALONE = {"sasl.kerberos.service.name"}
"""Properties that conflict with those of `VALUES`."""


def test_all_mapped_properties_are_tested_here() -> None:
    assert VALUES.keys() | ALONE == MAPPED.keys()


def test_properties_of_kerberos_make_a_config() -> None:
    of_kafka = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "bus"}
    options: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}
    assert Config.from_properties(of_kafka) == Config(**options, sasl_kerberos_service="bus")


def test_all_properties_together_make_a_config() -> None:
    expected = {MAPPED[name]: value for name, (_, value) in VALUES.items()}
    expected |= {"sasl_username": "alice", "sasl_password": "x"}
    assert Config.from_properties({name: given for name, (given, _) in VALUES.items()} | REQUIRED) == Config(**expected)


def test_no_properties_give_the_defaults() -> None:
    assert Config.from_properties({}) == Config()


@pytest.mark.parametrize("name", ALWAYS)
def test_property_with_a_fixed_value_accepts_only_that_value(name: str) -> None:
    values, reason = ALWAYS[name]
    for value in values:
        assert Config.from_properties({name: value}) == Config()
    [problem] = problems_of({name: "other"})
    assert problem.startswith(f"{name} = 'other': can only be ")
    assert problem.endswith(reason)


@pytest.mark.parametrize(
    ("text", "policy"),
    [("latest", "newest"), ("earliest", "oldest"), ("none", "fail"), ("by_duration:PT1H", timedelta(hours=1))],
)
def test_auto_offset_reset_sets_only_the_initial_offset(text: str, policy: object) -> None:
    config = Config.from_properties({"auto.offset.reset": text})
    assert (config.offset_initial, config.offset_out_of_range) == (policy, "fail")


@pytest.mark.parametrize("given", ["range,sticky", ["range", "org.apache.kafka.clients.consumer.StickyAssignor"]])
def test_assignors_accept_names_of_librdkafka_and_lists(given: object) -> None:
    config = Config.from_properties({"partition.assignment.strategy": given})
    assert config.rebalance_strategies == ("range", "sticky")


def test_empty_instance_id_is_none() -> None:
    assert Config.from_properties({"group.instance.id": ""}).group_instance_id is None


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("session.timeout.ms", "10s", "must be a whole number of milliseconds"),
        ("session.timeout.ms", "", "must be a whole number of milliseconds"),
        ("request.timeout.ms", "-1", "as request_timeout = -0.001, it must be a number above 0 and at most 2147483"),
        ("fetch.min.bytes", "1.5", "must be a whole number"),
        ("fetch.min.bytes", 0, "as fetch_min_bytes = 0, it must be a whole number from 1 to 2147483647"),
        ("enable.auto.commit", "yes", "must be true or false"),
        ("auto.offset.reset", "oldest", "must be 'earliest', 'latest', 'none' or, for example, 'by_duration:PT1H'"),
        ("isolation.level", "x", "as isolation_level = 'x', it must be one of 'read_uncommitted', 'read_committed'"),
        ("group.instance.id", "a b", "as group_instance_id = 'a b', it must be 1 to 249 of the characters 0-9 a-z"),
        ("auto.offset.reset", "by_duration:1h", "as offset_initial = 'by_duration:1h', it must be a duration"),
        ("partition.assignment.strategy", "my.Assignor", "'my.Assignor' is not one of Kafka's assignors (org."),
        ("partition.assignment.strategy", "", "as rebalance_strategies = (), it must be a non-empty list of 'range'"),
    ],
)
def test_invalid_value_is_reported_under_the_kafka_name(name: str, given: object, problem: str) -> None:
    [line] = problems_of({name: given})
    assert line.startswith(f"{name} = {given!r}: {problem}")


def test_conflicting_properties_are_reported() -> None:
    assert problems_of({"session.timeout.ms": "2000"}) == [
        "heartbeat.interval.ms: as heartbeat_interval = 3.0, it must be below session_timeout (2)"
    ]
    assert problems_of({"session.timeout.ms": "2000", "heartbeat.interval.ms": "2000"}) == [
        "heartbeat.interval.ms = '2000': as heartbeat_interval = 2.0, it must be below session_timeout (2)"
    ]
    [problem] = problems_of({"max.poll.interval.ms": "500"})
    assert problem.startswith("rebalance_margin: as rebalance_margin = 1.0, it must be below rebalance_timeout")


def test_none_as_a_value_is_refused() -> None:
    assert problems_of({"client.id": None, "check.crcs": "true", "sasl.jaas.config": None}) == [
        "client.id: has no value: leave it out",
        "sasl.jaas.config: has no value: leave it out",
    ]
    with pytest.raises(PropertiesError, match=r"^client\.rack: has no value: leave it out$"):
        ClientProperties.of({"bootstrap.servers": None, "client.rack": None})


def test_typo_of_a_librdkafka_name_gets_both_names() -> None:
    assert problems_of({"sasl.pasword": "x"}) == [
        "sasl.pasword = ***: is not a property of Kafka's clients; did you mean 'sasl.password'? That is librdkafka's "
        "name; Kafka's is 'sasl.jaas.config'"
    ]


def test_all_problems_are_reported_at_once() -> None:
    assert problems_of(
        {
            "sesion.timeout.ms": "6000",
            "session.timeout.ms": "2000",
            "max.poll.records": "500",
            "fetch.min.bytes": "0",
            "fetch.max.bytes": "much",
            "transactional.id": "t",
            "check.crcs": "true",
            "acks": "1",
            "bootstrap.servers": "a:1",
            "zzz": "",
            "session_timeout": "6",
            "ssl.ca.location": "/ca.pem",
        }
    ) == [
        "sesion.timeout.ms = '6000': is not a property of Kafka's clients; did you mean 'session.timeout.ms'?",
        "max.poll.records = '500': has no meaning here: handlers do not poll; max.partition.fetch.bytes and "
        "fetch.max.bytes bound how much a handler gets at a time",
        "fetch.min.bytes = '0': as fetch_min_bytes = 0, it must be a whole number from 1 to 2147483647",
        "fetch.max.bytes = 'much': must be a whole number",
        "transactional.id = 't': is not supported: the producer has no transactions",
        "acks = '1': can only be '-1' or 'all' here: every record is acknowledged by all in-sync replicas",
        "bootstrap.servers = 'a:1': is not an option: it is the argument bootstrap_servers of ConsumerGroup, Consumer "
        "and Producer; ClientProperties reads it, too",
        "zzz = '': is not a property of Kafka's clients",
        "session_timeout = '6': is an option of Config, not a Kafka property; Kafka's name is 'session.timeout.ms'",
        "ssl.ca.location = '/ca.pem': is librdkafka's name; Kafka's is 'ssl.truststore.location'",
        "heartbeat.interval.ms: as heartbeat_interval = 3.0, it must be below session_timeout (2)",
    ]


# -- secrets ---------------------------------------------------------------------------------------

CANARY = "env:kAnarienv0gel"


@attrs.frozen
class Secretive:
    word: Secret | None = secret("what opens it", kafka="ssl.key.password")
    other: int = attrs.field(default=0, metadata={})


def test_secret_is_taken_verbatim() -> None:
    for given in (CANARY, Secret(CANARY)):
        assert from_properties(Secretive, {"ssl.key.password": given}) == Secretive(word=Secret(CANARY))


@pytest.mark.parametrize("name", ["ssl.key.password", JAAS, "sasl.pasword", "ssl.keystore.key"])
def test_secret_is_not_in_the_error(name: str) -> None:
    [problem] = problems_of({name: CANARY})
    assert problem.startswith(f"{name} = ***: ")
    assert CANARY not in problem


# -- security --------------------------------------------------------------------------------------

SASL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "name", "password"),
    [
        (f'{PLAIN} required username="alice" password="a b\\"c\\\\;d";', "alice", 'a b"c\\;d'),
        (f"  {PLAIN}  required\n  username='al=ice'\n  password=bare ;", "al=ice", "bare"),
        (f'{PLAIN} required password="x" username="a"', "a", "x"),
    ],
)
def test_jaas_sets_username_and_password(text: str, name: str, password: str) -> None:
    config = Config.from_properties({**SASL, JAAS: text})
    assert (config.sasl_username, config.sasl_password) == (name, Secret(password))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("alice", "is not a JAAS entry"),
        (f"{PLAIN} required username=alice;", "has no password"),
        (f'{PLAIN} required username=alice password="";', "has no password"),
        (f'{PLAIN} required username="alice" password="x;', 'has options that are not name="value"'),
        (f"{PLAIN} required username=alice password='x;", 'has options that are not name="value"'),
        (f'{PLAIN} required username=alice password=x";', 'has options that are not name="value"'),
        (f"{PLAIN} required username=alice password=x debug=true;", "has the unknown option debug"),
        (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;",
            "names Krb5LoginModule: leave it out; ",
        ),
        (
            "software.amazon.msk.auth.iam.IAMLoginModule required;",
            "names IAMLoginModule: leave it out; credentials are",
        ),
        (
            "com.example.OurLoginModule required;",
            "names OurLoginModule; only PlainLoginModule and ScramLoginModule are supported",
        ),
        (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
            "cannot name the source of tokens",
        ),
    ],
)
def test_unsupported_jaas_is_refused(text: str, problem: str) -> None:
    assert problems_of({**SASL, JAAS: text})[0].startswith(f"{JAAS} = ***: {problem}")


def test_jaas_password_is_taken_verbatim_as_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("kAnarienv0gel", raising=False)
    properties = {**SASL, JAAS: f'{PLAIN} required username="alice" password="{CANARY}";'}
    assert Config.from_properties(properties).sasl_password == Secret(CANARY)
    options = ClientValues.of(properties).options
    assert options["sasl_password"] == Secret(CANARY)
    assert "kAnarienv0gel" not in repr(options)


def test_conflicting_jaas_is_refused_under_its_name() -> None:
    jaas = f'{PLAIN} required username="alice" password="{CANARY}";'
    [problem] = problems_of({"security.protocol": "SSL", JAAS: jaas})
    assert problem.startswith(f"{JAAS} = ***: as sasl_username = 'alice', it requires security_protocol")


@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_java_keystore_is_refused_with_the_conversion_to_pem(store: str) -> None:
    [problem] = problems_of({"security.protocol": "SSL", f"ssl.{store}.location": "x.jks"})
    assert problem.startswith(f"ssl.{store}.location = 'x.jks': is a Java keystore without ssl.{store}.type = PEM: ")
    assert "keytool -importkeystore" in problem


# -- files -----------------------------------------------------------------------------------------


def test_file_is_read_as_client_properties(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        "# ours\nbootstrap.servers = a:9092,\\\n  b:9092\ngroup.id: orders\nclient.id größe\nsession.timeout.ms=6000\n",
        encoding="utf-8",
    )
    assert ClientProperties.read(path) == ClientProperties(
        Config(client_id="größe", session_timeout=6.0),
        ("a:9092", "b:9092"),
        "orders",
    )
    assert ClientValues.read(path).options == {"client_id": "größe", "session_timeout": 6.0}


def test_incomplete_options_can_be_read_but_not_used() -> None:
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "bootstrap.servers": "a:9092"}
    assert ClientValues.of(properties).options == {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
    with pytest.raises(PropertiesError, match="sasl_username: as sasl_username = None, it must be given"):
        ClientProperties.of(properties)


def test_file_without_servers_and_group_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert ClientProperties.read(str(tmp_path / "empty")) == ClientProperties(Config())


def test_servers_can_be_a_list() -> None:
    assert ClientProperties.of({"bootstrap.servers": ["a:1", "b:2"]}).bootstrap_servers == ("a:1", "b:2")


@pytest.mark.parametrize(
    ("content", "problems"),
    [
        ("a=1\nmax.poll.records=5\n", ["a = '1': is not a property", "max.poll.records = '5': has no meaning here: "]),
        ("client.id=\\u12\n", [r"line 1: \u must be followed by four hexadecimal digits"]),
        (None, ["cannot be read: No such file or directory"]),
    ],
)
def test_invalid_file_is_reported_with_its_path(tmp_path: Path, content: str | None, problems: list[str]) -> None:
    path = tmp_path / "client.properties"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PropertiesError) as caught:
        ClientProperties.read(path)
    assert len(caught.value.problems) == len(problems)
    for problem, expected in zip(caught.value.problems, problems, strict=True):
        assert problem.startswith(f"{path}: {expected}")
