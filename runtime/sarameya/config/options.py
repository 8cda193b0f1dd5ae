"""Options of the runtime: default, unit, bounds. No other module holds a default.

Durations are seconds (float), sizes are bytes. Names follow sarama's consumer options and Kafka's own property names
(`kafka` in a field's metadata). An invalid value raises `ConfigError`, which names the option, the value and the
allowed values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, Protocol, get_args

import attrs

from sarameya.config.properties import from_properties, no_such_option
from sarameya.config.security import KERBEROS_SERVICE, SecurityOptions, security_conflicts
from sarameya.errors import ConfigError
from sarameya.offset_policy import OffsetPolicy
from sarameya.option_kinds import (
    MOST_SECONDS,
    as_tuple,
    boolean,
    converted,
    from_table,
    function,
    function_shown,
    instance_id,
    number,
    one_of,
    option,
    optional,
    policy,
    policy_or_none,
    seconds,
    secret,
    size,
    text,
    whole,
)
from sarameya.secret import Secret
from sarameya.token import Token

IsolationLevel = Literal["read_uncommitted", "read_committed"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM"]
TokenSource = Callable[[], Token | str | Awaitable[Token | str]]
"""Returns a valid token. Called in a worker thread, or awaited if it is an async function."""
RebalanceStrategy = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]
"""Built-in assignors, by Kafka's names; `protocol.assignors.ASSIGNORS` has the class of each."""


def _strategies(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    names = get_args(RebalanceStrategy)
    if not isinstance(value, tuple) or not value or any(v not in names for v in value):
        raise ConfigError(attribute.name, value, f"must be a non-empty list of {', '.join(map(repr, names))}")
    if len(set(value)) != len(value):
        raise ConfigError(attribute.name, value, "names an assignor twice")


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


@attrs.frozen(slots=True)
class TopicConfig:
    """Options for one topic; `None` means the general option.

        Config(offset_initial="newest", topics={"orders": TopicConfig(offset_initial="oldest")})

    or in an app file

        [config.topics.orders]
        offset_initial = "oldest"

    These options are grouped by topic rather than by option, so all options of a topic are in one place. Topics are
    listed one by one, without patterns: set the general option to the value for most topics.
    """

    offset_initial: OffsetPolicy | None = converted(policy_or_none, None, "`Config.offset_initial`, for this topic")
    offset_out_of_range: OffsetPolicy | None = converted(
        policy_or_none, None, "`Config.offset_out_of_range`, for this topic"
    )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], prefix: str = "") -> TopicConfig:
        """Create a TopicConfig from plain values, as `Config.from_mapping` does."""
        return from_table(cls, values, prefix, partial(no_such_option, cls))


_NO_OVERRIDES = TopicConfig()


@attrs.frozen(slots=True)
class Config:
    """Options of the runtime. Immutable; `attrs.evolve(config, ...)` makes a changed copy."""

    # -- the wire --------------------------------------------------------------------------------
    client_id: str = option("sarameya", text, "name of this client in the broker's logs and quotas", kafka="client.id")
    connect_timeout: float = seconds(
        4.0,
        "seconds for one connection attempt, negotiation included",
        kafka="socket.connection.setup.timeout.ms",
    )
    request_timeout: float = seconds(30.0, "seconds to wait for an ordinary response", kafka="request.timeout.ms")
    max_response_bytes: int = size(100 * 2**20, "a response larger than this is a protocol error", low=1024)
    retry_backoff: float = seconds(
        0.1,
        "seconds before the first retry; doubled before each further one, with jitter",
        kafka="retry.backoff.ms",
    )
    retry_backoff_max: float = seconds(
        2.0, "no retry waits longer than this many seconds", kafka="retry.backoff.max.ms"
    )
    retry_max_attempts: int | None = option(
        None,
        optional(whole(0)),
        "retries of one operation before `consume` fails; None: until it succeeds or is not needed any more. "
        "Rebalances that overtake one another, and waiting for other members, do not count",
    )
    retry_timeout: float | None = option(
        None,
        optional(number(0, MOST_SECONDS, above=True)),
        "seconds of retries of one operation before `consume` fails; None: unlimited",
    )
    bootstrap_timeout: float = seconds(
        10.0, "seconds to reach a first broker and to find every subscribed topic, before `consume` fails"
    )
    metadata_max_age: float = seconds(300.0, "seconds after which metadata is refreshed", kafka="metadata.max.age.ms")
    # -- security --------------------------------------------------------------------------------
    security_protocol: SecurityProtocol = option(
        "PLAINTEXT",
        one_of(*get_args(SecurityProtocol)),
        "protocol of the listener: `..SSL` uses TLS, `SASL_..` requires authentication",
        kafka="security.protocol",
    )
    tls_ca_file: str | None = option(
        None,
        optional(text),
        "PEM file with the CA certificates for the brokers; None: those that this system trusts",
        kafka="ssl.truststore.location",
    )
    tls_cert_file: str | None = option(
        None,
        optional(text),
        "PEM file with this client's certificate, and the intermediate ones up to the brokers' CA",
        kafka="ssl.keystore.location",
    )
    tls_key_file: str | None = option(
        None, optional(text), "PEM file with the key of that certificate; None: the key is in tls_cert_file"
    )
    tls_key_password: Secret | None = secret("password of the encrypted key", kafka="ssl.key.password")
    tls_check_hostname: bool = option(
        True,
        boolean,
        "check that a broker's certificate is for its host name; if false, any trusted certificate is accepted",
        kafka="ssl.endpoint.identification.algorithm",
    )
    sasl_mechanism: SaslMechanism | None = option(
        None, optional(one_of(*get_args(SaslMechanism))), "SASL mechanism", kafka="sasl.mechanism"
    )
    sasl_username: str | None = option(None, optional(text), "user name for PLAIN or SCRAM")
    sasl_password: Secret | None = secret("password for PLAIN or SCRAM")
    sasl_token: TokenSource | None = option(
        None,
        optional(function),
        "for OAUTHBEARER: function that returns a `sarameya.Token`, or its text, for each authentication; may "
        "be async, otherwise it runs in a thread",
        shown=function_shown,
    )
    sasl_kerberos_service: str = option(
        KERBEROS_SERVICE,
        text,
        "for GSSAPI: first part of the brokers' Kerberos principal, before '/' and the host name",
        kafka="sasl.kerberos.service.name",
    )
    # -- the group -------------------------------------------------------------------------------
    session_timeout: float = seconds(
        10.0,
        "seconds without a heartbeat after which the group removes this member",
        kafka="session.timeout.ms",
    )
    heartbeat_interval: float = seconds(
        3.0,
        "seconds between heartbeats; at most a third of session_timeout is recommended",
        kafka="heartbeat.interval.ms",
    )
    rebalance_timeout: float = seconds(
        60.0,
        "seconds that the group waits for this member to rejoin; "
        "claims must drain, `cleanup` run and the last commit finish within them",
        kafka="max.poll.interval.ms",
    )
    rebalance_margin: float = seconds(
        1.0, "seconds kept free before the rebalance deadline, for the rejoin itself", above=False
    )
    rebalance_strategies: tuple[RebalanceStrategy, ...] = option(
        ("range",),
        _strategies,
        "assignors this member supports, best first",
        kafka="partition.assignment.strategy",
        converter=as_tuple,
    )
    group_instance_id: str | None = option(
        None, instance_id, "static membership (KIP-345); unique in the group", kafka="group.instance.id"
    )
    rack_id: str = option(
        "",
        text,
        "rack of this member, for rack-aware assignors, and for brokers, which may name a nearer replica (KIP-392)",
        kafka="client.rack",
    )
    claim_grace: float = seconds(
        20.0, "seconds for a claim to end after its partition is revoked, before it is cancelled", above=False
    )
    close_timeout: float = seconds(10.0, "seconds for claims, cleanup, last commit and leave when the group is closed")
    # -- fetching --------------------------------------------------------------------------------
    fetch_min_bytes: int = size(
        1, "bytes of records that a broker waits for before it answers a fetch", kafka="fetch.min.bytes"
    )
    fetch_max_wait: float = seconds(
        0.5, "seconds for which a broker holds a fetch without enough records", kafka="fetch.max.wait.ms"
    )
    fetch_max_bytes: int = size(
        50 * 2**20,
        "bytes of one fetch, at most; never more than an eighth of fetch_buffer_bytes",
        kafka="fetch.max.bytes",
    )
    fetch_max_partition_bytes: int = size(
        2**20, "bytes of one partition in one fetch, at most", kafka="max.partition.fetch.bytes"
    )
    fetch_buffer_bytes: int = size(
        64 * 2**20,
        "bytes of all partitions together that are being fetched, buffered, or processed, at most; resident"
        " memory takes up to an eighth more for each broker, for its response, and the decompressed size of one record"
        " batch of each partition",
        low=1024,
    )
    fetch_max_decompressed_bytes: int = size(
        64 * 2**20, "a record batch that decompresses to more is refused", low=1024
    )
    channel_buffer_fetches: int = option(
        2, whole(1), "fetches (each at most fetch_max_partition_bytes) buffered for each partition"
    )
    max_processing_time: float = seconds(
        0.1,
        "seconds in which a handler should take at least one of its buffered messages; if it takes none for "
        "up to twice as long, its partition is not fetched until the buffer is empty",
    )
    isolation_level: IsolationLevel = option(
        "read_uncommitted",
        one_of("read_uncommitted", "read_committed"),
        "read_committed hides aborted transactions",
        kafka="isolation.level",
    )
    check_crcs: bool = option(True, boolean, "verify each record batch's CRC", kafka="check.crcs")
    # -- offsets ---------------------------------------------------------------------------------
    offset_initial: OffsetPolicy = converted(
        policy,
        "newest",
        "start offset of a partition without a committed offset; 'fail': `consume` raises, and names the partition",
        kafka="auto.offset.reset",
    )
    offset_out_of_range: OffsetPolicy = converted(
        policy, "fail", "new position when the log does not have the old one any more; 'fail': the claim raises"
    )
    topics: Mapping[str, TopicConfig] = converted(
        _topics, attrs.Factory(dict), "options of single topics, by topic name; they override the general ones"
    )
    autocommit: bool = option(
        True,
        boolean,
        "commit marks every autocommit_interval and at each session's end",
        kafka="enable.auto.commit",
    )
    autocommit_interval: float = seconds(1.0, "seconds between autocommits", kafka="auto.commit.interval.ms")

    # -- producing -------------------------------------------------------------------------------
    delivery_timeout: float = seconds(
        120.0,
        "seconds from `send` to the acknowledgement, retries included, before it raises",
        kafka="delivery.timeout.ms",
    )
    produce_batch_bytes: int = size(
        256 * 2**10,
        "bytes of the records of one batch, at most; a larger record is sent alone",
        kafka="batch.size",
    )
    max_request_bytes: int = size(
        2**20, "bytes of one record, and of one request to a broker, at most", low=1024, kafka="max.request.size"
    )
    compression: Compression = option(
        "none", one_of(*get_args(Compression)), "compression of record batches", kafka="compression.type"
    )

    def __attrs_post_init__(self) -> None:
        for conflict in conflicts(self):
            raise conflict

    def offset_initial_of(self, topic: str) -> OffsetPolicy:
        """Return `offset_initial` for this topic."""
        own = self.topics.get(topic, _NO_OVERRIDES).offset_initial
        return self.offset_initial if own is None else own

    def offset_out_of_range_of(self, topic: str) -> OffsetPolicy:
        """Return `offset_out_of_range` for this topic."""
        own = self.topics.get(topic, _NO_OVERRIDES).offset_out_of_range
        return self.offset_out_of_range if own is None else own

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any], prefix: str = "") -> Config:
        """Create a Config from plain values, as a TOML table has them.

        Args:
            values: Options by name.
            prefix: Put before the name of an option in errors.

        Raises:
            ConfigError: A key is unknown (the message names the nearest known key), or a value is not allowed.
        """
        return from_table(cls, values, prefix, partial(no_such_option, cls))

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Config:
        """Create a Config from Kafka's own properties, such as `{"session.timeout.ms": "6000"}`.

        Values may be text, as in a file, or numbers, booleans and lists. Properties with a fixed value here may be
        given with that value (`acks=all`). `auto.offset.reset` sets only `offset_initial`: `offset_out_of_range`
        decides about positions that are no longer in the log.

        Raises:
            PropertiesError: Lists every property that is unknown (with the nearest known name), not supported, without
                meaning here, or has an invalid value. No property is ignored.
        """
        return from_properties(cls, properties)


class RelatedOptions(SecurityOptions, Protocol):
    """Options of `Config` that depend on each other."""

    @property
    def heartbeat_interval(self) -> float: ...

    @property
    def session_timeout(self) -> float: ...

    @property
    def rebalance_margin(self) -> float: ...

    @property
    def rebalance_timeout(self) -> float: ...


def conflicts(options: RelatedOptions) -> Iterator[ConfigError]:
    """Yield the conflicts between options that are valid by themselves."""
    for name, below in ("heartbeat_interval", "session_timeout"), ("rebalance_margin", "rebalance_timeout"):
        value, bound = getattr(options, name), getattr(options, below)
        if value >= bound:
            yield ConfigError(name, value, f"must be below {below} ({bound:g})")
    yield from security_conflicts(options)
