"""Kafka's client properties without an option here, and the reasons (Kafka 4.1: consumer, producer, admin client).

An option of `Config` has its Kafka name in the metadata of its field (`kafka`). Each of Kafka's names is in one of
these tables or belongs to an option; a test compares them with the names in Kafka's own jar. Pure data.
"""

from __future__ import annotations

from collections.abc import Mapping

GIVEN_APART = {
    "bootstrap.servers": "bootstrap_servers",
    "group.id": "group_id",
}
"""Properties that are arguments of ConsumerGroup, Consumer and Producer instead of options."""

_TO_PEM = (
    "a Java keystore becomes one by `keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12` and "
    "`openssl pkcs12 -in FILE.p12 -nodes -out FILE.pem`"
)

ALWAYS: Mapping[str, tuple[frozenset[str], str]] = {
    name: (frozenset(values), reason)
    for name, values, reason in (
        ("acks", ("all", "-1"), "every record is acknowledged by all in-sync replicas"),
        ("allow.auto.create.topics", ("false",), "reading a topic never creates it"),
        ("client.dns.lookup", ("use_all_dns_ips",), "all addresses of a host are tried"),
        ("connections.max.idle.ms", ("-1",), "connections are kept for as long as brokers keep them"),
        ("enable.idempotence", ("true",), "the producer is always idempotent"),
        ("enable.metrics.push", ("false",), "no metrics are pushed to brokers (KIP-714)"),
        (
            "exclude.internal.topics",
            ("true",),
            "patterns never match internal topics; an internal topic can be subscribed to by name",
        ),
        ("group.protocol", ("classic",), "members join by the classic protocol; KIP-848's is not supported"),
        ("key.deserializer", ("org.apache.kafka.common.serialization.ByteArrayDeserializer",), "keys are bytes"),
        ("key.serializer", ("org.apache.kafka.common.serialization.ByteArraySerializer",), "keys are bytes"),
        ("linger.ms", ("0",), "records are sent at once; records that arrive while a broker is busy share a batch"),
        ("max.in.flight.requests.per.connection", ("1",), "one Produce request at a time is sent to each broker"),
        ("metadata.recovery.strategy", ("rebootstrap",), "bootstrap_servers are used again if no broker responds"),
        ("receive.buffer.bytes", ("-1",), "the operating system chooses the socket's buffers"),
        (
            "retries",
            ("2147483647",),
            "retry_max_attempts, retry_timeout and delivery_timeout bound retries",
        ),
        ("send.buffer.bytes", ("-1",), "the operating system chooses the socket's buffers"),
        ("ssl.keystore.type", ("PEM",), f"keys are read from PEM files; {_TO_PEM}"),
        ("ssl.truststore.type", ("PEM",), f"certificates are read from PEM files; {_TO_PEM}"),
        ("value.deserializer", ("org.apache.kafka.common.serialization.ByteArrayDeserializer",), "values are bytes"),
        ("value.serializer", ("org.apache.kafka.common.serialization.ByteArraySerializer",), "values are bytes"),
    )
}
"""Properties with a fixed value here: the accepted values, and the reason."""


def _all(names: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


UNSUPPORTED: Mapping[str, str] = {
    **_all("bootstrap.controllers", "clients connect to brokers, never to controllers: give bootstrap.servers"),
    **_all("buffer.memory", "`send` waits for its records; the caller bounds how many wait"),
    **_all(
        "compression.gzip.level compression.lz4.level compression.zstd.level",
        "each codec compresses at its default level",
    ),
    **_all("default.api.timeout.ms", "bootstrap_timeout and retry_timeout bound retries"),
    **_all("group.remote.assignor", "members join by the classic protocol; KIP-848's is not supported"),
    **_all("max.block.ms", "bootstrap_timeout bounds the wait for a topic's metadata"),
    **_all("metadata.max.idle.ms", "a producer looks up all topics that it has sent to, until it is closed"),
    **_all(
        "metadata.recovery.rebootstrap.trigger.ms", "bootstrap_servers are used as soon as no known broker responds"
    ),
    **_all(
        "partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class"
        " partitioner.ignore.keys",
        "records go where Kafka's own partitioner puts their keys, or to the `partition` given to `send`",
    ),
    **_all("reconnect.backoff.max.ms", "retry.backoff.max.ms bounds the wait before a new connection, too"),
    **_all("reconnect.backoff.ms", "retry.backoff.ms is the wait before a new connection, too"),
    **_all("share.acknowledgement.mode", "there are no share groups (KIP-932)"),
    **_all("socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms holds for each attempt"),
    **_all(
        "transaction.timeout.ms transaction.two.phase.commit.enable transactional.id",
        "the producer has no transactions",
    ),
    **_all(
        "ssl.cipher.suites ssl.enabled.protocols ssl.protocol",
        "this system's OpenSSL chooses the cipher suites and the version of TLS, 1.2 or later",
    ),
    **_all(
        "ssl.keystore.password ssl.truststore.password",
        "PEM files have no store password; a key's own password is ssl.key.password",
    ),
    **_all(
        "ssl.keystore.certificate.chain ssl.keystore.key ssl.truststore.certificates",
        "certificates and keys are read from files: ssl.keystore.location, ssl.truststore.location",
    ),
    **_all(
        "sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter"
        " sasl.kerberos.ticket.renew.window.factor",
        "Kerberos' own library renews tickets from the keytab that KRB5_CLIENT_KTNAME names; otherwise run kinit",
    ),
    **_all(
        "sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds"
        " sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter"
        " sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.assertion.algorithm"
        " sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds"
        " sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include"
        " sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub"
        " sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file"
        " sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file"
        " sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret"
        " sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer"
        " sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms"
        " sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"
        " sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name"
        " sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url",
        "tokens come from your own function, Config(sasl_token=...), which is called whenever a token is needed",
    ),
}
"""Features of Kafka's own clients that this client lacks, or does in another way."""

_JAVA_CLASS = "it names a Java class"

MEANINGLESS: Mapping[str, str] = {
    **_all("interceptor.classes", f"{_JAVA_CLASS}; ConsumerGroup(interceptors=[...]) takes ConsumerInterceptors"),
    **_all(
        "internal.leave.group.on.close internal.throw.on.fetch.stable.offset.unsupported", "only Kafka Streams uses it"
    ),
    **_all(
        "max.poll.records",
        "handlers do not poll; max.partition.fetch.bytes and fetch.max.bytes bound how much a handler gets at a time",
    ),
    **_all(
        "auto.include.jmx.reporter metric.reporters metrics.num.samples metrics.recording.level"
        " metrics.sample.window.ms",
        "it configures the metrics of Java's clients",
    ),
    **_all(
        "sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class"
        " sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class security.providers"
        " ssl.engine.factory.class ssl.keymanager.algorithm ssl.provider ssl.secure.random.implementation"
        " ssl.trustmanager.algorithm",
        f"{_JAVA_CLASS}, or a service of Java's security providers",
    ),
}
"""Properties that would have no effect here."""

ELSEWHERE: Mapping[str, str] = {
    "auto.commit.enable": "enable.auto.commit",
    "compression.codec": "compression.type",
    "fetch.error.backoff.ms": "retry.backoff.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.max.bytes": "max.request.size",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "metadata.broker.list": "bootstrap.servers",
    "partitioner": "partitioner.class",
    "queue.buffering.max.kbytes": "buffer.memory",
    "queue.buffering.max.messages": "buffer.memory",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.password": "sasl.jaas.config",
    "sasl.username": "sasl.jaas.config",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
"""Kafka's name for each name of librdkafka (confluent-kafka). Used only for hints in error messages."""
