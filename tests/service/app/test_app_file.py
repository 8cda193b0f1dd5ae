from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sarameya.config import Config, TopicConfig
from sarameya.offset_policy import ALLOWED
from sarameya.service.app.app_file import App, AppFileError, HandlerSection, ServiceSection, load_app

MINIMAL = """
bootstrap_servers = ["localhost:9092"]
group = "g"
topics = ["orders"]
handler = { name = "print" }
"""


def app_file(directory: Path, text: str) -> Path:
    path = directory / "app.toml"
    path.write_text(text)
    return path


def problems_of(path: Path) -> list[str]:
    with pytest.raises(AppFileError) as caught:
        load_app(path)
    prefix = f"{path}: "
    assert all(problem.startswith(prefix) for problem in caught.value.problems)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return [problem.removeprefix(prefix) for problem in caught.value.problems]


def test_minimal_file_gives_the_defaults(tmp_path: Path) -> None:
    assert load_app(app_file(tmp_path, MINIMAL)) == App(
        bootstrap_servers=("localhost:9092",),
        group="g",
        topics=("orders",),
        handler=HandlerSection("print", {}),
        config=Config(),
        service=ServiceSection(workers=1, in_process=False, on_failure="stop"),
    )


def test_full_file_gives_every_value(tmp_path: Path) -> None:
    text = """
    bootstrap_servers = ["a:1", "[::1]:65535"]
    group = "g"
    topics = ["a", "b"]
    [config]
    session_timeout = 6
    rebalance_strategies = ["roundrobin"]
    [handler]
    name = "mine:Handler"
    options = { path = "x", nested = { deep = [1, 2] } }
    [service]
    workers = 3
    in_process = true
    on_failure = "restart"
    restart_backoff = 2
    restart_backoff_max = 8.5
    log_format = "json"
    """
    assert load_app(app_file(tmp_path, text)) == App(
        bootstrap_servers=("a:1", "[::1]:65535"),
        group="g",
        topics=("a", "b"),
        handler=HandlerSection("mine:Handler", {"path": "x", "nested": {"deep": [1, 2]}}),
        config=Config(session_timeout=6, rebalance_strategies=("roundrobin",)),
        service=ServiceSection(3, True, "restart", 2, 8.5, "json"),
    )


ADDRESSES = "must be a non-empty list of 'host:port' strings"
TOPICS = "must be a non-empty list of topic names (1 to 249 of the characters a-z A-Z 0-9 . _ -)"
APP_KEYS = "bootstrap_servers, config, group, handler, properties, service, topics, topics_pattern"
SERVICE_KEYS = (
    "http, http_hosts, in_process, log_format, on_failure, otel, "
    "restart_backoff, restart_backoff_max, stall_after, workers"
)

CHANGED = [
    ("bootstrap_servers", '"localhost:9092"', f"bootstrap_servers = 'localhost:9092': {ADDRESSES}"),
    ("bootstrap_servers", "[]", f"bootstrap_servers = []: {ADDRESSES}"),
    ("bootstrap_servers", '["localhost"]', f"bootstrap_servers = ['localhost']: {ADDRESSES}"),
    ("bootstrap_servers", '["localhost:0"]', f"bootstrap_servers = ['localhost:0']: {ADDRESSES}"),
    ("bootstrap_servers", '["localhost:65536"]', f"bootstrap_servers = ['localhost:65536']: {ADDRESSES}"),
    ("bootstrap_servers", '["a:1,b:2"]', f"bootstrap_servers = ['a:1,b:2']: {ADDRESSES}"),
    ("bootstrap_servers", '"a:1,b:2"', f"bootstrap_servers = 'a:1,b:2': {ADDRESSES}"),
    ("bootstrap_servers", '["PLAINTEXT://a:1"]', f"bootstrap_servers = ['PLAINTEXT://a:1']: {ADDRESSES}"),
    ("bootstrap_servers", "[9092]", f"bootstrap_servers = [9092]: {ADDRESSES}"),
    ("group", '""', "group = '': must be a non-empty string"),
    ("group", "7", "group = 7: must be a non-empty string"),
    ("topics", '"orders"', f"topics = 'orders': {TOPICS}"),
    ("topics", "[]", f"topics = []: {TOPICS}"),
    ("topics", '["two words"]', f"topics = ['two words']: {TOPICS}"),
    ("handler", '"print"', "handler = 'print': must be a table"),
    ("handler", "{ name = 1 }", "handler.name = 1: must be a non-empty string"),
    ("handler", '{ name = "print", options = 1 }', "handler.options = 1: must be a table"),
    (
        "handler",
        '{ name = "print", option = 1 }',
        "handler.option = 1: no such option; did you mean 'options'?",
    ),
]

ADDED = [
    ("grop = 'x'", "grop = 'x': no such option; did you mean 'group'?"),
    ("group_id = 'x'", "group_id = 'x': no such option; Kafka's group.id is `group` here"),
    (
        "auto_offset_reset = 'earliest'",
        "auto_offset_reset = 'earliest': no such option; Kafka's auto.offset.reset is offset_initial here: "
        "offset_initial = 'oldest', under [config]",
    ),
    ("zzz = 1", f"zzz = 1: no such option; allowed are {APP_KEYS}"),
    ("service.zzz = 1", f"service.zzz = 1: no such option; allowed are {SERVICE_KEYS}"),
    ("config = 1", "config = 1: must be a table"),
    (
        "config.offset_initial = 'oldst'",
        f"config.offset_initial = 'oldst': must be {ALLOWED}",
    ),
    (
        "config = {session_timeout = 2, heartbeat_interval = 2}",
        "config.heartbeat_interval = 2: must be below session_timeout (2)",
    ),
    ("service = 1", "service = 1: must be a table"),
    ("service.worker = 2", "service.worker = 2: no such option; did you mean 'workers'?"),
    ("service.workers = 0", "service.workers = 0: must be a whole number of at least 1"),
    ("service.workers = true", "service.workers = True: must be a whole number of at least 1"),
    ("service.workers = 1.5", "service.workers = 1.5: must be a whole number of at least 1"),
    ("service.in_process = 'no'", "service.in_process = 'no': must be true or false"),
    ("service.on_failure = 'retry'", "service.on_failure = 'retry': must be one of 'stop', 'restart'"),
    ("service.on_failure = []", "service.on_failure = []: must be one of 'stop', 'restart'"),
    ("service.log_format = 'xml'", "service.log_format = 'xml': must be one of 'auto', 'text', 'json'"),
    ("service.restart_backoff = 0", "service.restart_backoff = 0: must be a number above 0"),
    ("service.restart_backoff = true", "service.restart_backoff = True: must be a number above 0"),
    ("service.restart_backoff_max = inf", "service.restart_backoff_max = inf: must be a number above 0"),
    ("service.restart_backoff_max = nan", "service.restart_backoff_max = nan: must be a number above 0"),
]

PATTERN_LINE = "topics_pattern = 'orders-.*'"

MISSING = [
    ("bootstrap_servers", 'bootstrap_servers is missing: add for example bootstrap_servers = ["localhost:9092"]'),
    ("group", 'group is missing: add for example group = "orders-landing"'),
    ("topics", "topics is missing: add for example topics = [\"orders\"], or topics_pattern = 'orders-.*'"),
    ("handler", 'handler is missing: add a [handler] table with a name, for example name = "print"'),
]


@pytest.mark.parametrize(("key", "value", "message"), CHANGED)
def test_invalid_value_is_reported_with_the_allowed_ones(tmp_path: Path, key: str, value: str, message: str) -> None:
    lines = [line for line in MINIMAL.splitlines() if not line.startswith(f"{key} =")]
    assert problems_of(app_file(tmp_path, "\n".join([*lines, f"{key} = {value}"]))) == [message]


@pytest.mark.parametrize(("line", "message"), ADDED)
def test_invalid_optional_key_or_value_is_reported(tmp_path: Path, line: str, message: str) -> None:
    assert problems_of(app_file(tmp_path, MINIMAL + line)) == [message]


@pytest.mark.parametrize(("key", "message"), MISSING)
def test_missing_key_is_reported_with_an_example(tmp_path: Path, key: str, message: str) -> None:
    lines = [line for line in MINIMAL.splitlines() if not line.startswith(f"{key} =")]
    assert problems_of(app_file(tmp_path, "\n".join(lines))) == [message]


def test_handler_without_a_name_is_reported_with_an_example(tmp_path: Path) -> None:
    text = MINIMAL.replace('{ name = "print" }', "{}")
    assert problems_of(app_file(tmp_path, text)) == [
        'handler.name is missing: add for example name = "print" under [handler]'
    ]


def test_unknown_config_option_is_reported_with_a_similar_one(tmp_path: Path) -> None:
    (problem,) = problems_of(app_file(tmp_path, MINIMAL + "config.sesion_timeout = 3"))
    assert problem == (
        "config.sesion_timeout = 3: no such option; did you mean 'session_timeout'? `sarameya config docs` lists all "
        "options"
    )
    (problem,) = problems_of(app_file(tmp_path, MINIMAL + "config.zzz = 3"))
    assert problem == "config.zzz = 3: no such option; `sarameya config docs` lists all options"


def test_conflicting_options_are_all_reported_at_once(tmp_path: Path) -> None:
    text = (
        MINIMAL
        + "config = {session_timeout = 2, heartbeat_interval = 2, rebalance_margin = 99, sasl_username = 'ann', "
        "tls_key_file = 'k', sasl_password = 'x'}"
    )
    assert [problem.partition(": ")[0] for problem in problems_of(app_file(tmp_path, text))] == [
        "config.heartbeat_interval = 2",
        "config.rebalance_margin = 99",
        "config.tls_key_file = 'k'",
        "config.sasl_username = 'ann'",
        "config.sasl_password = ***",
    ]


def test_several_mistakes_are_all_reported_at_once(tmp_path: Path) -> None:
    text = MINIMAL.replace('"g"', '""') + "config.autocommit = 1\nservice.workers = 0\nextra = 1"
    assert [problem.partition(":")[0] for problem in problems_of(app_file(tmp_path, text))] == [
        "group = ''",
        "config.autocommit = 1",
        "service.workers = 0",
        "extra = 1",
    ]


def test_several_mistakes_in_options_are_all_reported_at_once(tmp_path: Path) -> None:
    options = """
    [config]
    autocommit = 1
    sesion_timeout = 3
    sasl_token = "nowhere:token"
    [config.topics.orders]
    offset_initial = "oldst"
    offset_intial = "oldest"
    """
    assert [problem.partition(":")[0] for problem in problems_of(app_file(tmp_path, MINIMAL + options))] == [
        "config.sasl_token = ***",
        "config.autocommit = 1",
        "config.sesion_timeout = 3",
        "config.topics.orders.offset_initial = 'oldst'",
        "config.topics.orders.offset_intial = 'oldest'",
    ]


def test_invalid_toml_is_reported_with_its_line(tmp_path: Path) -> None:
    (problem,) = problems_of(app_file(tmp_path, "group = 'g'\ntopics orders"))
    assert problem.startswith("is not TOML: ")
    assert "line 2, column 8" in problem


def test_file_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "app.toml"
    path.write_bytes(b"group = '\xff'")
    assert problems_of(path) == ["is not UTF-8 text, as TOML must be (byte 9)"]


def test_missing_file_is_reported(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "none.toml") == ["cannot be read: No such file or directory"]


def test_directory_in_place_of_a_file_is_reported(tmp_path: Path) -> None:
    assert problems_of(tmp_path) == ["cannot be read: Is a directory"]


def test_pattern_may_replace_topics(tmp_path: Path) -> None:
    lines = [line for line in MINIMAL.splitlines() if not line.startswith("topics =")]
    app = load_app(app_file(tmp_path, "\n".join([PATTERN_LINE, *lines])))
    assert (app.topics, app.topics_pattern) == ((), "orders-.*")


def test_topics_and_a_pattern_are_refused_together(tmp_path: Path) -> None:
    problem = "topics and topics_pattern are both given: give one of them"
    assert problems_of(app_file(tmp_path, PATTERN_LINE + "\n" + MINIMAL)) == [problem]


@pytest.mark.parametrize("pattern", ["'('", "''", "1", "'a{99999999999}'"])
def test_invalid_pattern_is_refused(tmp_path: Path, pattern: str) -> None:
    lines = [line for line in MINIMAL.splitlines() if not line.startswith("topics =")]
    [problem] = problems_of(app_file(tmp_path, "\n".join([f"topics_pattern = {pattern}", *lines])))
    assert "must be a regular expression that a topic's whole name matches" in problem


TOPIC_POLICIES = """
[config]
offset_initial = "by_duration:PT1H"
[config.topics.orders]
offset_initial = 2026-01-31T12:00:00Z
[config.topics."orders.eu"]
offset_initial = "timestamp:2026-01-31T12:00:00+01:00"
offset_out_of_range = "oldest"
"""


def test_offset_policies_of_topics_are_read(tmp_path: Path) -> None:
    text = MINIMAL.replace('["orders"]', '["orders", "orders.eu"]') + TOPIC_POLICIES
    config = load_app(app_file(tmp_path, text)).config
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert config.offset_initial == timedelta(hours=1)
    assert config.topics == {
        "orders": TopicConfig(offset_initial=noon),
        "orders.eu": TopicConfig(offset_initial=noon - timedelta(hours=1), offset_out_of_range="oldest"),
    }


def test_options_of_an_unread_topic_are_reported(tmp_path: Path) -> None:
    problem = "config.topics.orders.eu: this topic is not read; the topics that are read are orders"
    assert problems_of(app_file(tmp_path, MINIMAL + TOPIC_POLICIES)) == [problem]
    by_pattern = "\n".join(line for line in (MINIMAL + TOPIC_POLICIES).splitlines() if not line.startswith("topics ="))
    assert load_app(app_file(tmp_path, "topics_pattern = 'orders.*'\n" + by_pattern)).config.topics
    problem = "config.topics.orders.eu: this topic is not read; the topics that are read match '[a-z]+'"
    assert problems_of(app_file(tmp_path, "topics_pattern = '[a-z]+'\n" + by_pattern)) == [problem]


@pytest.mark.parametrize(
    ("line", "start"),
    [
        ("offset_initial = 2026-01-31T12:00:00", "config.topics.orders.offset_initial = datetime.datetime(2026"),
        ("offset_intial = 'oldest'", "config.topics.orders.offset_intial = 'oldest': no such option; did you mean"),
    ],
)
def test_wrong_option_of_a_topic_is_reported_with_its_path(tmp_path: Path, line: str, start: str) -> None:
    [problem] = problems_of(app_file(tmp_path, MINIMAL + f"[config.topics.orders]\n{line}"))
    assert problem.startswith(start)


TOKEN = """
[config]
security_protocol = "SASL_SSL"
sasl_mechanism = "OAUTHBEARER"
"""


def test_token_function_is_imported_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tokens_of_mine.py").write_text("async def token():\n    return 'good'\n")
    monkeypatch.syspath_prepend(tmp_path)
    app = load_app(app_file(tmp_path, f'{MINIMAL}{TOKEN}sasl_token = "tokens_of_mine:token"\n'))
    assert app.config.sasl_token is not None
    assert app.config.sasl_token.__qualname__ == "token"


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("eyJhbGciOi", "must be 'package.module:function'"),
        ("no_such_module:token", "cannot import 'no_such_module': No module named 'no_such_module'"),
        ("json:token", "module 'json' has no 'token'"),
        ("json:__name__", "must be a function without arguments"),
    ],
)
def test_wrong_token_function_is_reported_but_not_shown(tmp_path: Path, named: str, problem: str) -> None:
    path = app_file(tmp_path, f'{MINIMAL}{TOKEN}sasl_token = "{named}"\n')
    assert problems_of(path) == [f"config.sasl_token = ***: {problem}"]
