"""Every option of the runtime: its default, its unit, its bounds. Nothing else holds a default.

Durations are float seconds, sizes are bytes. Names follow sarama's consumer options and Kafka's own
property names (`kafka` in a field's metadata); a value that is not allowed raises `ConfigError`, which
names the option, the value and what is allowed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, get_args

import attrs

from sarameya.errors import ConfigError
from sarameya.offset_policy import OffsetPolicy, parse_policy

IsolationLevel = Literal["read_uncommitted", "read_committed"]
RebalanceStrategy = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]
"""The built-in assignors, by Kafka's names; `protocol.assignors.ASSIGNORS` has each one's class."""

_Options = TypeVar("_Options", "Config", "TopicConfig")

Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]

_INT32 = 2**31 - 1
_INT32_OF_MILLISECONDS = _INT32 // 1000
"""The most seconds that a duration can be where Kafka's requests carry it."""
_INSTANCE_ID = re.compile(r"[0-9a-zA-Z._-]{1,249}")


def _number(low: float, high: float, *, above: bool = False) -> Validator:
    allowed = f"must be a number {'above' if above else 'of at least'} {low:g} and at most {high}"

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(attribute.name, value, allowed)
        if not low <= value <= high or (above and value == low):  # so put, it refuses NaN
            raise ConfigError(attribute.name, value, allowed)

    return check


def _whole(low: int, high: int = _INT32) -> Validator:
    allowed = f"must be a whole number from {low} to {high}"

    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(attribute.name, value, allowed)

    return check


def _optional(check: Validator) -> Validator:
    def check_unless_none(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None:
            check(instance, attribute, value)

    return check_unless_none


def _one_of(*allowed: str) -> Validator:
    def check(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value not in allowed:
            raise ConfigError(attribute.name, value, f"must be one of {', '.join(map(repr, allowed))}")

    return check


def _text(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str):
        raise ConfigError(attribute.name, value, "must be a string")


def _boolean(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, bool):
        raise ConfigError(attribute.name, value, "must be true or false")


def _instance_id(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not (isinstance(value, str) and _INSTANCE_ID.fullmatch(value)):
        raise ConfigError(attribute.name, value, "must be 1 to 249 of the characters 0-9 a-z A-Z . _ -")


def _strategies(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    names = get_args(RebalanceStrategy)
    if not isinstance(value, tuple) or not value or any(v not in names for v in value):
        raise ConfigError(attribute.name, value, f"must be a non-empty list of {', '.join(map(repr, names))}")
    if len(set(value)) != len(value):
        raise ConfigError(attribute.name, value, "names an assignor twice")


def _tuple(value: Any) -> Any:
    """Lists (as TOML gives them) become tuples; anything else is left for the validator to name."""
    return tuple(value) if isinstance(value, list) else value


def _policy(value: Any, attribute: attrs.Attribute[Any]) -> OffsetPolicy:
    try:
        return parse_policy(value)
    except ValueError as error:
        raise ConfigError(attribute.name, value, str(error)) from None


def _policy_or_none(value: Any, attribute: attrs.Attribute[Any]) -> OffsetPolicy | None:
    return None if value is None else _policy(value, attribute)


def _topics(value: Any, attribute: attrs.Attribute[Any]) -> dict[str, TopicConfig]:
    if not isinstance(value, Mapping):
        raise ConfigError(attribute.name, value, "must be a table of topics, each with options of its own")
    topics: dict[str, TopicConfig] = {}
    for topic, options in value.items():
        if not isinstance(topic, str):
            raise ConfigError(attribute.name, topic, "must name topics")
        name = f"{attribute.name}.{topic}"
        match options:
            case TopicConfig():
                topics[topic] = options
            case Mapping():
                topics[topic] = TopicConfig.from_mapping(options, f"{name}.")
            case _:
                raise ConfigError(name, options, "must be a table of options (in Python: a TopicConfig)")
    return topics


def _anything(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """What the converter lets pass is allowed."""


def _converted(convert: Callable[[Any, attrs.Attribute[Any]], Any], default: Any, doc: str, *, kafka: str = "") -> Any:
    converter = attrs.Converter(convert, takes_field=True)
    return _option(default, _anything, doc, kafka=kafka, converter=converter)


def _option(default: Any, validator: Validator, doc: str, *, kafka: str = "", converter: Any = None) -> Any:
    return attrs.field(
        default=default,
        validator=validator,
        converter=converter,
        kw_only=True,
        metadata={"doc": doc, "kafka": kafka},
    )


def _seconds(default: float, doc: str, *, above: bool = True, kafka: str = "") -> Any:
    return _option(default, _number(0, _INT32_OF_MILLISECONDS, above=above), doc, kafka=kafka)


def _bytes(default: int, doc: str, *, low: int = 1, kafka: str = "") -> Any:
    return _option(default, _whole(low), doc, kafka=kafka)


@attrs.frozen(slots=True)
class TopicConfig:
    """What is different for one topic; `None`: as for all of them.

        Config(offset_initial="newest", topics={"orders": TopicConfig(offset_initial="oldest")})

    or in an app file

        [config.topics.orders]
        offset_initial = "oldest"

    It stands under the topic's name, as what is looked for first, rather than under the option's: what belongs to a
    topic is read, and taken away, in one place. Topics are named one by one; an option that shall hold for all but a
    few is the general one.
    """

    offset_initial: OffsetPolicy | None = _converted(_policy_or_none, None, "`Config.offset_initial`, for this topic")
    offset_out_of_range: OffsetPolicy | None = _converted(
        _policy_or_none, None, "`Config.offset_out_of_range`, for this topic"
    )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], prefix: str = "") -> TopicConfig:
        """As `Config.from_mapping`."""
        return _from_mapping(cls, values, prefix)


_NOTHING_OF_ITS_OWN = TopicConfig()


@attrs.frozen(slots=True)
class Config:
    """The runtime's options. Immutable; `attrs.evolve(config, ...)` makes a changed copy."""

    # -- the wire --------------------------------------------------------------------------------
    client_id: str = _option("sarameya", _text, "named in the broker's logs and quotas", kafka="client.id")
    connect_timeout: float = _seconds(4.0, "seconds for one connection attempt, negotiation included")
    request_timeout: float = _seconds(30.0, "seconds to wait for an ordinary answer", kafka="request.timeout.ms")
    max_response_bytes: int = _bytes(100 * 2**20, "an answer larger than this is a protocol error", low=1024)
    retry_backoff: float = _seconds(0.1, "seconds before the first retry; doubles, jittered", kafka="retry.backoff.ms")
    retry_backoff_max: float = _seconds(
        2.0, "no retry waits longer than this many seconds", kafka="retry.backoff.max.ms"
    )
    retry_max_attempts: int | None = _option(
        None,
        _optional(_whole(0)),
        "how often one thing is tried again before `consume` fails; None: until it succeeds or is not wanted any more. "
        "Rebalances that overtake one another, and waiting for other members, are no tries",
    )
    retry_timeout: float | None = _option(
        None,
        _optional(_number(0, _INT32_OF_MILLISECONDS, above=True)),
        "seconds for which one thing is tried again before `consume` fails; None: without end",
    )
    bootstrap_timeout: float = _seconds(
        10.0, "seconds to reach a first broker and to see every subscribed topic, before `consume` gives up"
    )
    metadata_max_age: float = _seconds(
        300.0, "seconds after which metadata is refreshed unasked", kafka="metadata.max.age.ms"
    )
    # -- the group -------------------------------------------------------------------------------
    session_timeout: float = _seconds(
        10.0,
        "seconds without a heartbeat after which the group gives this member up",
        kafka="session.timeout.ms",
    )
    heartbeat_interval: float = _seconds(
        3.0,
        "seconds between heartbeats; at most a third of session_timeout is wise",
        kafka="heartbeat.interval.ms",
    )
    rebalance_timeout: float = _seconds(
        60.0,
        "seconds the group waits for this member to rejoin; claims, cleanup and last commit fit in it",
        kafka="max.poll.interval.ms",
    )
    rebalance_margin: float = _seconds(
        1.0, "seconds kept free before the rebalance deadline, for the rejoin itself", above=False
    )
    rebalance_strategies: tuple[RebalanceStrategy, ...] = _option(
        ("range",),
        _strategies,
        "assignors this member supports, best first",
        kafka="partition.assignment.strategy",
        converter=_tuple,
    )
    group_instance_id: str | None = _option(
        None, _instance_id, "static membership (KIP-345); unique in the group", kafka="group.instance.id"
    )
    rack_id: str = _option("", _text, "where this member runs; told to rack-aware assignors", kafka="client.rack")
    claim_grace: float = _seconds(
        20.0, "seconds a claim may take to finish after it was asked to, before it is cancelled", above=False
    )
    close_timeout: float = _seconds(10.0, "seconds for claims, cleanup, last commit and leave when the group is closed")
    # -- fetching --------------------------------------------------------------------------------
    fetch_min_bytes: int = _bytes(1, "a broker answers once it has this much", kafka="fetch.min.bytes")
    fetch_max_wait: float = _seconds(
        0.5, "seconds a broker holds a fetch that finds nothing", above=False, kafka="fetch.max.wait.ms"
    )
    fetch_max_bytes: int = _bytes(50 * 2**20, "the most one fetch brings", kafka="fetch.max.bytes")
    fetch_max_partition_bytes: int = _bytes(
        2**20, "the most one fetch brings of one partition", kafka="max.partition.fetch.bytes"
    )
    fetch_buffer_bytes: int = _bytes(
        64 * 2**20,
        "the most that all partitions together may have fetched, or be fetching, and not yet dealt with",
        low=1024,
    )
    fetch_max_decompressed_bytes: int = _bytes(
        64 * 2**20, "a record batch that decompresses to more is refused", low=1024
    )
    channel_buffer_fetches: int = _option(
        2, _whole(1), "fetched pieces (each at most fetch_max_partition_bytes) buffered for each partition"
    )
    max_processing_time: float = _seconds(
        0.1, "a partition whose buffer has been full for this many seconds no longer holds back its broker's next fetch"
    )
    isolation_level: IsolationLevel = _option(
        "read_uncommitted",
        _one_of("read_uncommitted", "read_committed"),
        "read_committed hides aborted transactions",
        kafka="isolation.level",
    )
    check_crcs: bool = _option(True, _boolean, "verify each record batch's CRC", kafka="check.crcs")
    # -- offsets ---------------------------------------------------------------------------------
    offset_initial: OffsetPolicy = _converted(
        _policy,
        "newest",
        "where a partition starts for which the group has committed nothing; 'fail': `consume` raises, and says which",
        kafka="auto.offset.reset",
    )
    offset_out_of_range: OffsetPolicy = _converted(
        _policy, "fail", "where to go on when the position is no longer in the log; 'fail': its claim raises"
    )
    topics: Mapping[str, TopicConfig] = _converted(
        _topics, attrs.Factory(dict), "options of single topics, by the topic's name; they go before the general ones"
    )
    autocommit: bool = _option(
        True,
        _boolean,
        "commit marks every autocommit_interval and at each session's end",
        kafka="enable.auto.commit",
    )
    autocommit_interval: float = _seconds(1.0, "seconds between autocommits", kafka="auto.commit.interval.ms")

    def __attrs_post_init__(self) -> None:
        if self.heartbeat_interval >= self.session_timeout:
            raise ConfigError(
                "heartbeat_interval",
                self.heartbeat_interval,
                f"must be below session_timeout ({self.session_timeout:g})",
            )
        if self.rebalance_margin >= self.rebalance_timeout:
            raise ConfigError(
                "rebalance_margin",
                self.rebalance_margin,
                f"must be below rebalance_timeout ({self.rebalance_timeout:g})",
            )

    def offset_initial_of(self, topic: str) -> OffsetPolicy:
        """`offset_initial`, as it is for this topic."""
        own = self.topics.get(topic, _NOTHING_OF_ITS_OWN).offset_initial
        return self.offset_initial if own is None else own

    def offset_out_of_range_of(self, topic: str) -> OffsetPolicy:
        """`offset_out_of_range`, as it is for this topic."""
        own = self.topics.get(topic, _NOTHING_OF_ITS_OWN).offset_out_of_range
        return self.offset_out_of_range if own is None else own

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], prefix: str = "") -> Config:
        """A Config from plain values, as a TOML table gives them.

        Raises ConfigError for an unknown key (with the nearest known one) and for a value not allowed;
        the option is named with `prefix` before it.
        """
        return _from_mapping(cls, values, prefix)


def _from_mapping(options: type[_Options], values: Mapping[str, Any], prefix: str) -> _Options:
    known = {field.name for field in attrs.fields(options)}
    for key in values:
        if key not in known:
            raise ConfigError(prefix + key, values[key], unknown_option(key, known))
    try:
        return options(**values)
    except ConfigError as error:
        raise ConfigError(prefix + error.option, error.value, error.allowed) from None


def unknown_option(key: str, known: set[str]) -> str:
    """What to tell somebody who wrote `key`, when only `known` is allowed."""
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"no such option; {hint}allowed are {', '.join(sorted(known))}"
