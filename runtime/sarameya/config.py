"""Every option of the runtime: its default, its unit, its bounds. Nothing else holds a default.

Durations are float seconds, sizes are bytes. Names follow sarama's consumer options and Kafka's own
property names (`kafka` in a field's metadata); a value that is not allowed raises `ConfigError`, which
names the option, the value and what is allowed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import attrs

from sarameya.errors import ConfigError

OffsetReset = Literal["oldest", "newest"]
OutOfRangePolicy = Literal["oldest", "newest", "fail"]
IsolationLevel = Literal["read_uncommitted", "read_committed"]
RebalanceStrategy = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]
"""The built-in assignors, by Kafka's names; `protocol.assignors.ASSIGNORS` has each one's class."""

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
    offset_initial: OffsetReset = _option(
        "newest",
        _one_of("oldest", "newest"),
        "where a partition starts for which the group has committed nothing",
        kafka="auto.offset.reset",
    )
    offset_out_of_range: OutOfRangePolicy = _option(
        "fail",
        _one_of("oldest", "newest", "fail"),
        "what to do when the position is no longer in the log",
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

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], prefix: str = "") -> Config:
        """A Config from plain values, as a TOML table gives them.

        Raises ConfigError for an unknown key (with the nearest known one) and for a value not allowed;
        the option is named with `prefix` before it.
        """
        known = {field.name for field in attrs.fields(cls)}
        for key in values:
            if key not in known:
                raise ConfigError(prefix + key, values[key], unknown_option(key, known))
        try:
            return cls(**values)
        except ConfigError as error:
            raise ConfigError(prefix + error.option, error.value, error.allowed) from None


def unknown_option(key: str, known: set[str]) -> str:
    """What to tell somebody who wrote `key`, when only `known` is allowed."""
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"no such option; {hint}allowed are {', '.join(sorted(known))}"
