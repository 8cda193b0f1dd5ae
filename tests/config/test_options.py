import math
import pickle
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya.config import Config, RebalanceStrategy, TopicConfig
from sarameya.config.mistakes import mistakes
from sarameya.errors import ConfigError
from sarameya.option_kinds import unknown_option

INT32 = 2**31 - 1
LONGEST = INT32 // 1000

ABOVE_ZERO = {
    "fetch_max_wait",
    "connect_timeout",
    "request_timeout",
    "retry_backoff",
    "retry_backoff_max",
    "bootstrap_timeout",
    "metadata_max_age",
    "session_timeout",
    "heartbeat_interval",
    "rebalance_timeout",
    "close_timeout",
    "max_processing_time",
    "autocommit_interval",
    "delivery_timeout",
}
FROM_ZERO = {"rebalance_margin", "claim_grace"}
WHOLE_FROM = {
    "max_response_bytes": 1024,
    "fetch_min_bytes": 1,
    "fetch_max_bytes": 1,
    "fetch_max_partition_bytes": 1,
    "fetch_buffer_bytes": 1024,
    "fetch_max_decompressed_bytes": 1024,
    "channel_buffer_fetches": 1,
    "produce_batch_bytes": 1,
    "max_request_bytes": 1024,
}
ONE_OF = {
    "isolation_level": {"read_uncommitted", "read_committed"},
    "compression": {"none", "gzip", "snappy", "lz4", "zstd"},
}
POLICIES = {"offset_initial", "offset_out_of_range"}
BOOLEANS = {"check_crcs", "autocommit"}
TEXTS = {"client_id", "rack_id"}
WITH_OWN_TESTS = {"rebalance_strategies", "group_instance_id", "retry_max_attempts", "retry_timeout", "topics"}
SECURITY = {name for name in (field.name for field in attrs.fields(Config)) if name.startswith(("tls_", "sasl_"))}
SECURITY |= {"security_protocol"}
"""Options that depend on each other. Their tests are in test_security.py."""

# Values of related options, with which the bounds of an option can be tested alone.
ROOM = {"heartbeat_interval": {"session_timeout": LONGEST}, "rebalance_margin": {"rebalance_timeout": LONGEST}}
SHORT = {"session_timeout": {"heartbeat_interval": 0.0001}, "rebalance_timeout": {"rebalance_margin": 0}}


def refused(option: str, value: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Config(**{option: value})
    error = caught.value
    assert error.option == option
    assert repr(error.value) == repr(value)
    assert str(error).startswith(f"{option} = {value!r}: ")
    return error


def accepted(option: str, value: object) -> None:
    related = ROOM.get(option, {}) | SHORT.get(option, {})
    assert getattr(Config(**related | {option: value}), option) == value


def test_bounds_of_all_options_are_tested_here():
    tested = ABOVE_ZERO | FROM_ZERO | WHOLE_FROM.keys() | ONE_OF.keys() | BOOLEANS | TEXTS | POLICIES | WITH_OWN_TESTS
    assert tested | SECURITY == {field.name for field in attrs.fields(Config)}


@pytest.mark.parametrize("option", sorted(ABOVE_ZERO | FROM_ZERO))
def test_duration_is_finite_and_fits_into_int32_milliseconds(option):
    for value in (-1, -0.001, LONGEST + 1, 10**400, math.nan, math.inf, -math.inf, "1", None, True, [1]):
        assert "must be a number" in refused(option, value).allowed
    accepted(option, 0.001)
    if option not in ROOM:
        accepted(option, LONGEST)
        accepted(option, 7)


@pytest.mark.parametrize("option", sorted(ABOVE_ZERO))
def test_positive_duration_refuses_zero(option):
    assert "above 0" in refused(option, 0).allowed


@pytest.mark.parametrize("option", sorted(FROM_ZERO))
def test_duration_from_zero_accepts_zero(option):
    accepted(option, 0)


@pytest.mark.parametrize(("option", "low"), WHOLE_FROM.items())
def test_size_is_a_whole_number_within_its_bounds(option, low):
    for value in (low - 1, -1, INT32 + 1, 2048.0, math.nan, "5", None, True):
        assert refused(option, value).allowed == f"must be a whole number from {low} to {INT32}"
    accepted(option, low)
    accepted(option, INT32)


@pytest.mark.parametrize(("option", "allowed"), ONE_OF.items())
def test_choice_must_be_one_of_the_allowed_words(option, allowed):
    for value in ("", "Newest", None, 1, ["newest"]):
        assert all(repr(word) in refused(option, value).allowed for word in allowed)
    for value in allowed:
        accepted(option, value)


@pytest.mark.parametrize("option", sorted(BOOLEANS))
def test_boolean_accepts_only_true_and_false(option):
    for value in (0, 1, "true", None):
        refused(option, value)
    accepted(option, True)
    accepted(option, False)


@pytest.mark.parametrize("option", sorted(TEXTS))
def test_text_must_be_a_string(option):
    for value in (b"x", 1, None):
        refused(option, value)
    accepted(option, "größe")


@pytest.mark.parametrize("option", sorted(POLICIES))
def test_offset_policy_must_be_a_word_a_time_or_a_duration(option):
    for value in (
        "",
        "Newest",
        None,
        1,
        1.5,
        ["newest"],
        "timestamp:",
        "by_duration:1h",
        timedelta(-1),
        date(2026, 1, 1),
    ):
        refused(option, value)
    assert refused(option, "earliest").allowed.startswith("is called 'oldest' here")
    assert "time zone" in refused(option, datetime(2026, 1, 31)).allowed
    for value in ("oldest", "newest", "fail", datetime(2026, 1, 31, tzinfo=UTC), timedelta(hours=1)):
        accepted(option, value)
    assert getattr(Config(**{option: "timestamp:2026-01-31T00:00:00Z"}), option) == datetime(2026, 1, 31, tzinfo=UTC)
    assert getattr(Config(**{option: "by_duration:PT1H"}), option) == timedelta(hours=1)


@pytest.mark.parametrize("option", sorted(POLICIES))
def test_policy_of_a_topic_overrides_the_general_policy(option):
    config = Config(
        topics={"orders": TopicConfig(**{option: "oldest"}), "returns": TopicConfig()}, **{option: "newest"}
    )
    of = getattr(config, f"{option}_of")
    assert [of(topic) for topic in ("orders", "returns", "others")] == ["oldest", "newest", "newest"]


def test_topics_can_be_tables_which_are_copied():
    table = {"orders": {"offset_initial": "by_duration:PT1H"}}
    config = Config.from_mapping({"topics": table})
    table.clear()
    assert config.topics == {"orders": TopicConfig(offset_initial=timedelta(hours=1))}
    assert attrs.evolve(config, client_id="x").topics == config.topics
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("topics", "option"),
    [
        (5, "c.topics"),
        ({5: {}}, "c.topics"),
        ({"orders": "oldest"}, "c.topics.orders"),
        ({"orders": {"offset": "oldest"}}, "c.topics.orders.offset"),
        ({"orders": {"offset_initial": "oldst"}}, "c.topics.orders.offset_initial"),
    ],
)
def test_invalid_topics_are_refused_with_their_place(topics, option):
    with pytest.raises(ConfigError) as caught:
        Config.from_mapping({"topics": topics}, prefix="c.")
    assert caught.value.option == option


def test_group_instance_id_must_be_valid_in_kafka():
    for value in ("", "a b", "ü", "a" * 250, "a\n", b"a", 5):
        refused("group_instance_id", value)
    for value in (None, "a", "host-1.example_0", "a" * 249):
        accepted("group_instance_id", value)


def test_rebalance_strategies_must_be_known_and_distinct():
    for value in ((), "range", ("stickyish",), ("range", 5), ("range", "range"), None, {"range"}):
        refused("rebalance_strategies", value)
    for name in get_args(RebalanceStrategy):
        accepted("rebalance_strategies", (name,))
    assert Config(rebalance_strategies=["roundrobin", "range"]).rebalance_strategies == ("roundrobin", "range")


@pytest.mark.parametrize("session_timeout", [2.0, 3.0])
def test_heartbeat_interval_must_be_below_the_session_timeout(session_timeout):
    with pytest.raises(ConfigError, match=r"heartbeat_interval = 3\.0: must be below session_timeout"):
        Config(session_timeout=session_timeout)


def test_rebalance_margin_must_be_below_the_timeout():
    with pytest.raises(ConfigError, match=r"rebalance_margin = 5: must be below rebalance_timeout \(5\)"):
        Config(rebalance_timeout=5, rebalance_margin=5)


def test_config_is_immutable_and_evolves_through_its_validators():
    config = Config()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        config.autocommit = False
    assert attrs.evolve(config, autocommit=False) == Config(autocommit=False)
    with pytest.raises(ConfigError):
        attrs.evolve(config, fetch_min_bytes=0)


def test_options_are_keyword_only():
    with pytest.raises(TypeError):
        Config("client")


def test_every_option_is_documented_with_a_unique_kafka_name():
    metadata = [field.metadata for field in attrs.fields(Config)]
    assert all(m["doc"] for m in metadata)
    names = [m["kafka"] for m in metadata if m["kafka"]]
    assert len(set(names)) == len(names)


# -- from_mapping ------------------------------------------------------------------------------------------


def test_mapping_of_plain_values_becomes_a_config():
    values = {"session_timeout": 6, "heartbeat_interval": 2, "rebalance_strategies": ["roundrobin"]}
    assert Config.from_mapping(values) == Config(
        session_timeout=6, heartbeat_interval=2, rebalance_strategies=("roundrobin",)
    )
    assert Config.from_mapping({}) == Config()


def test_unknown_key_is_refused_with_a_suggestion():
    with pytest.raises(ConfigError, match="did you mean 'session_timeout'") as caught:
        Config.from_mapping({"sesion_timeout": 5}, prefix="consumer.")
    assert (caught.value.option, caught.value.value) == ("consumer.sesion_timeout", 5)


def test_bad_value_is_refused_with_prefix_and_key():
    with pytest.raises(ConfigError) as caught:
        Config.from_mapping({"fetch_min_bytes": "much"}, prefix="consumer.")
    assert caught.value.option == "consumer.fetch_min_bytes"
    assert caught.value.__cause__ is None


def test_conflicting_options_are_refused_with_the_prefix():
    with pytest.raises(ConfigError, match=r"consumer\.heartbeat_interval"):
        Config.from_mapping({"session_timeout": 1}, prefix="consumer.")


_values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.text(max_size=3))


@given(st.dictionaries(st.sampled_from([f.name for f in attrs.fields(Config)]) | st.text(max_size=8), _values))
def test_any_plain_values_make_a_config_or_a_config_error(values):
    with suppress(ConfigError):
        assert Config.from_mapping(values) == Config(**values)


def test_unknown_option_without_a_near_one_gets_the_list():
    assert unknown_option("zzz", {"b", "a"}) == "no such option; allowed are a, b"
    assert unknown_option("zzz", {"b", "a"}, listed="see there") == "no such option; see there"


def test_unknown_option_with_a_near_one_gets_a_suggestion():
    assert unknown_option("alphe", {"alpha", "b"}) == "no such option; did you mean 'alpha'?"
    assert unknown_option("alphe", {"alpha", "b"}, listed="see there") == (
        "no such option; did you mean 'alpha'? see there"
    )


@pytest.mark.parametrize("option", ["retry_max_attempts", "retry_timeout"])
def test_retry_limits_accept_none(option: str) -> None:
    assert getattr(Config(), option) is None
    accepted(option, None)
    accepted(option, 3)
    refused(option, -1)
    refused(option, "three")


def test_zero_is_valid_for_retry_attempts_but_not_retry_time() -> None:
    accepted("retry_max_attempts", 0)
    refused("retry_timeout", 0)


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("auto_offset_reset", "earliest", "auto.offset.reset is offset_initial here: offset_initial = 'oldest'"),
        ("auto.offset.reset", "latest", "auto.offset.reset is offset_initial here: offset_initial = 'newest'"),
        ("auto_offset_reset", "smallest", "auto.offset.reset is offset_initial here"),
        ("session_timeout_ms", 10000, "session.timeout.ms is session_timeout here: session_timeout = 10.0"),
        ("max_poll_records", 500, "max.poll.records has no option here: handlers do not poll; "),
        ("group_id", "x", "group.id is an app file's own `group`, or the second argument of ConsumerGroup"),
        ("isolation.level", "read_committed", "isolation_level = 'read_committed'"),
        ("fetch_wait_max_ms", 500, "fetch.wait.max.ms is fetch_max_wait here: fetch_max_wait = 0.5"),
        ("acks", "1", "acks has no option here: every record is acknowledged by all in-sync replicas"),
        ("zzz", 1, "`sarameya config docs` lists all options"),
    ],
)
def test_kafka_name_is_refused_with_the_option_to_use(name: str, value: object, hint: str) -> None:
    (found,) = mistakes({name: value})
    assert str(found).startswith(f"{name} = {value!r}: no such option; ")
    assert hint in str(found)
    with pytest.raises(ConfigError) as raised:
        Config.from_mapping({name: value})
    assert str(raised.value) == str(found)


def test_secret_under_its_kafka_name_is_not_shown() -> None:
    (found,) = mistakes({"ssl_key_password": "sesame"})
    assert "tls_key_password here" in str(found)
    assert "sesame" not in str(found)
