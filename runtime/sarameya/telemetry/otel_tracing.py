"""Spans for OpenTelemetry: a span for each session, each claim, and each write to a table. Messages have no spans.

The span of a write is linked to the traces of its records, by their W3C headers (`traceparent`, `tracestate`): a span
has only one parent, but any number of links. Attributes have OpenTelemetry's names for messaging, if there are any.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sarameya._version import __version__
from sarameya.group.delivery.interceptors import ConsumerInterceptor
from sarameya.message_batch import MessageBatch, MessageColumns
from sarameya.model import Generation, Headers, Message, TopicPartition
from sarameya.observe import (
    ClaimEnded,
    ClaimStarted,
    Event,
    Landed,
    LandingFailed,
    LandingStarted,
    PartitionsAssigned,
    PartitionsRevoked,
    SessionEnded,
    SessionEnding,
    SessionStarted,
)

__all__ = ["Tracing", "context_of"]

MOST_LINKS = 128
"""Maximum number of links of a write: OpenTelemetry's default."""
_MOST_CONTEXTS = 8 * MOST_LINKS
"""Maximum number of contexts that are kept for records of one partition that are not landed."""
_FIELDS = ("traceparent", "tracestate")
_Carrier = Mapping[str, str]


def context_of(message: Message, context: Context | None = None) -> Context:
    """Return the W3C trace context in a message's headers, or `context` if there is none.

    tracer.start_span(name, context_of(message))
    """
    return _PROPAGATOR.extract(_carrier(message.headers), context, _GETTER)


class Tracing(ConsumerInterceptor):
    """Tracing of a group. Pass it twice: `ConsumerGroup(..., observers=[tracing], interceptors=[tracing])`.

    As an observer it creates the spans. As an interceptor it reads the headers; without it, writes have no links.
    """

    on_error = "skip"

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = trace.get_tracer("sarameya", __version__, tracer_provider)
        self._session: Span | None = None
        self._claims: dict[TopicPartition, Span] = {}
        self._landings: dict[TopicPartition, Span] = {}
        # Offset and trace of the records that are not landed.
        self._contexts: dict[TopicPartition, deque[tuple[int, Link]]] = {}
        self._group = ""

    def on_consume(self, batch: MessageBatch) -> None:
        """Keep the traces of the records until they are landed."""
        found = self._contexts.get(batch.topic_partition)
        if found is None:
            return  # no ClaimStarted was received
        for offset, headers in _headers(batch.messages):
            if len(found) >= _MOST_CONTEXTS:
                return
            if headers and (link := _link(headers)) is not None:
                found.append((offset, link))

    def __call__(self, event: Event) -> None:
        """Start and end spans."""
        match event:
            case SessionStarted(group=group, generation=generation):
                self._group = group
                self._session = self._start_span("session", None, _session(group, generation))
            case SessionEnding(reason=reason):
                self._add_event("ending", reason=reason)
            case PartitionsAssigned(generation=generation, added=added):
                self._add_event("assigned", generation=generation.id, partitions=[str(each) for each in added])
            case PartitionsRevoked(generation=generation, partitions=partitions):
                self._add_event("revoked", generation=generation.id, partitions=[str(each) for each in partitions])
            case ClaimStarted(partition=partition, offset=offset, why=why):
                facts: dict[str, str | int] = {"sarameya.from_offset": offset, "sarameya.start": why}
                claim = self._start_span(f"claim {partition.topic}", self._session, self._attributes(partition) | facts)
                self._claims[partition], self._contexts[partition] = claim, deque()
            case ClaimEnded(partition=partition):
                self._claim_ended(event, partition)
            case LandingStarted(partition=partition):
                self._landing_started(event, partition)
            case Landed(partition=partition):
                self._landed(event, partition)
            case LandingFailed(partition=partition, cause=cause):
                _end(self._landings.pop(partition, None), failure=cause)
            case SessionEnded(reason=reason):
                for left in (*self._landings.values(), *self._claims.values()):
                    _end(left, failure="the session has ended")
                _end(self._session, {"sarameya.end": reason})
                self._session = None
                self._claims, self._landings, self._contexts = {}, {}, {}

    def _claim_ended(self, event: ClaimEnded, partition: TopicPartition) -> None:
        _end(self._landings.pop(partition, None), failure="the claim has ended")
        facts = {"sarameya.to_offset": event.offset, "messaging.batch.message_count": event.records}
        _end(self._claims.pop(partition, None), facts)
        self._contexts.pop(partition, None)

    def _landing_started(self, event: LandingStarted, partition: TopicPartition) -> None:
        facts = {"sarameya.from_offset": event.from_offset, "sarameya.to_offset": event.to_offset}
        self._landings[partition] = self._start_span(
            f"land {partition.topic}",
            self._claims.get(partition),
            self._attributes(partition) | facts,
            kind=SpanKind.CONSUMER,
            links=self._links(partition, event.from_offset, event.to_offset),
        )

    def _landed(self, event: Landed, partition: TopicPartition) -> None:
        facts = {
            "messaging.batch.message_count": event.rows,
            "sarameya.to_offset": event.to_offset,
            "sarameya.size_bytes": event.size_bytes,
        }
        _end(self._landings.pop(partition, None), {name: value for name, value in facts.items() if value >= 0})
        left = self._contexts.get(partition)
        while left and left[0][0] < event.to_offset:
            left.popleft()

    def _links(self, partition: TopicPartition, from_offset: int, to_offset: int) -> list[Link]:
        """Return one link for each trace."""
        of_trace: dict[int, Link] = {}
        for offset, link in self._contexts.get(partition, ()):
            if from_offset <= offset < to_offset:
                of_trace.setdefault(link.context.trace_id, link)
        return list(of_trace.values())[:MOST_LINKS]

    def _start_span(
        self,
        name: str,
        parent: Span | None,
        attributes: Mapping[str, str | int],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
    ) -> Span:
        context = Context() if parent is None else trace.set_span_in_context(parent, Context())
        return self._tracer.start_span(name, context, kind, dict(attributes), links)

    def _add_event(self, name: str, **attributes: str | int | list[str]) -> None:
        if self._session is not None:
            self._session.add_event(name, {f"sarameya.{key}": value for key, value in attributes.items()})

    def _attributes(self, partition: TopicPartition) -> dict[str, str | int]:
        return {
            "messaging.system": "kafka",
            "messaging.consumer.group.name": self._group,
            "messaging.destination.name": partition.topic,
            "messaging.destination.partition.id": str(partition.partition),
        }


def _session(group: str, generation: Generation) -> dict[str, str | int]:
    return {
        "messaging.system": "kafka",
        "messaging.consumer.group.name": group,
        "messaging.client.id": generation.member_id,
        "sarameya.generation": generation.id,
    }


def _end(span: Span | None, attributes: Mapping[str, str | int] | None = None, *, failure: str = "") -> None:
    if span is not None:
        span.set_attributes(dict(attributes or {}))
        if failure:
            span.set_status(Status(StatusCode.ERROR, failure))
        span.end()


def _headers(messages: Sequence[Message]) -> Iterator[tuple[int, Headers]]:
    if isinstance(messages, MessageColumns):
        return zip(messages.offsets, messages.headers, strict=True)
    return ((message.offset, message.headers) for message in messages)


def _link(headers: Headers) -> Link | None:
    carrier = _carrier(headers)
    if "traceparent" not in carrier:
        return None
    found = trace.get_current_span(_PROPAGATOR.extract(carrier, Context(), _GETTER)).get_span_context()
    return Link(found) if found.is_valid else None


def _carrier(headers: Headers) -> dict[str, str]:
    return {name: value.decode("latin-1") for name, value in headers if name in _FIELDS and value is not None}


class _Getter(Getter[_Carrier]):
    def get(self, carrier: _Carrier, key: str) -> list[str] | None:
        return [carrier[key]] if key in carrier else None

    def keys(self, carrier: _Carrier) -> list[str]:
        return list(carrier)


_PROPAGATOR = TraceContextTextMapPropagator()
_GETTER = _Getter()
