"""Targets of fuzzing. Each accepts any bytes, and raises only because of a bug of the project.

The first byte may select the API or the codec of the other bytes, so that a fuzzer guided by coverage reaches each API.
`seeds` are valid inputs to start from.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import attrs
from kafka.protocol.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from sarameya.embedded.apis import MESSAGES, SERVED_VERSIONS, Call, dispatch
from sarameya.embedded.network.framing import FrameReader, ReceivedRequest, decode_request, encode_answer
from sarameya.errors import ProtocolError, RecordError
from sarameya.model import TopicPartition
from sarameya.protocol.assignors.sticky import decode_previous_assignment
from sarameya.protocol.cluster import described_groups, described_topics, metadata
from sarameya.protocol.fetch.fetch_cursor import FetchCursor
from sarameya.protocol.rebalance import decode_assignment, decode_subscription, decode_user_data, encode_user_data
from sarameya.protocol.records.batch_codec import build, crc32c, decode, decode_columns, is_truncated, split
from sarameya.protocol.records.batch_headers import V2_HEADER
from sarameya.protocol.records.compression import BrokenDataError, Codec, TooLargeError, compress, decompress
from sarameya.protocol.records.transactions import aborted_batches
from sarameya.protocol.versions import Api
from sarameya.protocol.wire.client_wire import ClientWire
from tests.embedded.api_kit import ApiKit
from tests.fuzz.messages import ANSWERS, REQUESTS, answer_class, client_request, made_up, request_class

PARTITION = TopicPartition("orders", 0)
LIMIT = 1 << 16
"""The limit, in bytes, of a response and of a decompressed batch. Some seeds exceed it."""
_SEEDS_EACH = 3


@attrs.frozen
class Target:
    """A function under test. `run` accepts any bytes; `seeds` returns valid inputs."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]


# -- the client: responses ---------------------------------------------------------------------------------


def answer(data: bytes) -> None:
    """Decode a response as the client does.

    The first byte selects API and version. The other bytes are the response after its correlation id.
    """
    api, version = ANSWERS[(data[0] if data else 0) % len(ANSWERS)]
    wire = ClientWire("fuzz", LIMIT)
    wire.send(client_request(api, version))
    frame = struct.pack(">i", 1) + data[1:]
    with suppress(ProtocolError):
        ((_, response),) = wire.receive(struct.pack(">i", len(frame)) + frame)
        assert wire.in_flight == 0
        _interpret(api, response)


def _interpret(api: Api, response: Any) -> None:
    """Call the functions by which the client interprets a decoded response."""
    broker = metadata.Broker(0, "here", 9092)
    match api:
        case Api.METADATA:
            found = metadata.from_response(response)
            found.layouts(found.topics)
            [described_topics.described_topic(topic) for topic in response.topics]
        case Api.DESCRIBE_CONFIGS:
            [described_topics.own_settings(resource) for resource in response.results]
        case Api.LIST_GROUPS:
            described_groups.listed_groups(response, broker)
        case Api.DESCRIBE_GROUPS:
            [described_groups.classic_group(group, broker) for group in response.groups]
        case Api.CONSUMER_GROUP_DESCRIBE:
            [described_groups.consumer_group(group, broker) for group in response.groups]
        case Api.JOIN_GROUP:
            [decode_subscription(member.metadata) for member in response.members]
        case Api.SYNC_GROUP:
            decode_assignment(response.assignment)
        case Api.FETCH:
            for part in (part for topic in response.responses for part in topic.partitions):
                cursor = FetchCursor(PARTITION, 0)
                cursor.take(part, 0)
                assert cursor.position >= 0
        case Api.OFFSET_FOR_LEADER_EPOCH:
            [FetchCursor(PARTITION, 5, 1).evaluate(part) for topic in response.topics for part in topic.partitions]


def answer_seeds() -> Iterator[bytes]:
    for number, (api, version) in enumerate(ANSWERS):
        message = answer_class(api, version)
        tags = b"\0" if message.flexible_version_q(version) and api is not Api.API_VERSIONS else b""
        for seed in range(_SEEDS_EACH):
            yield bytes([number]) + tags + bytes(made_up(Random(seed), message, version).encode(version=version))


def stream(data: bytes) -> None:
    """Feed a server's bytes, in pieces of different sizes, to a client with three pending requests."""
    wire = ClientWire("fuzz", LIMIT)
    for api, version in ((Api.API_VERSIONS, 3), (Api.METADATA, 12), (Api.HEARTBEAT, 4)):
        wire.send(client_request(api, version))
    with suppress(ProtocolError):
        at, size = 0, 1
        while at < len(data):
            wire.receive(data[at : at + size])
            at, size = at + size, size * 2 % 61 + 1


def stream_seeds() -> Iterator[bytes]:
    frames = []
    for number, (api, version) in enumerate(((Api.API_VERSIONS, 3), (Api.METADATA, 12), (Api.HEARTBEAT, 4)), 1):
        tags = b"" if api is Api.API_VERSIONS else b"\0"
        body = tags + bytes(made_up(Random(1), answer_class(api, version), version).encode(version=version))
        frames.append(struct.pack(">ii", 4 + len(body), number) + body)
    yield b"".join(frames)
    yield b"HTTP/1.1 400 Bad Request\r\n\r\n"
    yield bytes.fromhex("15030300020232")  # a TLS alert


# -- records -----------------------------------------------------------------------------------------------


def records(data: bytes) -> None:
    """Split and decode a part of a log. Bits of the first byte select whether CRCs are corrected, and are checked."""
    choices, log = (data[0] if data else 0), data[1:]
    if choices & 1:
        log = with_valid_crcs(log)
    check_crc = not choices & 2
    raws = []
    with suppress(RecordError):
        raws.extend(split(log, PARTITION, 0))
    if not raws:
        is_truncated(log)
    for raw in raws:
        messages = columns = None
        with suppress(RecordError):
            messages = decode(raw, PARTITION, check_crc=check_crc, limit=LIMIT)
        with suppress(RecordError):
            columns = list(decode_columns(raw, PARTITION, check_crc=check_crc, limit=LIMIT))
        assert messages == columns
        assert all(0 <= message.offset <= raw.last_offset for message in messages or ())
    with suppress(RecordError):
        aborted_batches(raws, [(77, 0), (-1, 5), (raws[0].producer_id, raws[0].base_offset)] if raws else [], PARTITION)


def with_valid_crcs(log: bytes) -> bytes:
    """Return the log with correct CRCs in all batches up to the first wrong length."""
    out = bytearray(log)
    at = 0
    while len(out) - at >= V2_HEADER.size:
        length, magic = struct.unpack_from(">i", out, at + 8)[0], out[at + 16]
        end = at + 12 + length
        if length < 14 or end > len(out):
            break
        if magic == 2:
            struct.pack_into(">I", out, at + 17, crc32c(bytes(out[at + 21 : end])))
        else:
            struct.pack_into(">I", out, at + 12, zlib.crc32(out[at + 16 : end]))
        at = end
    return bytes(out)


def logs() -> Iterator[bytes]:
    """Yield batches of Kafka's Java client in each format and codec, and some of the project's own."""
    golden = Path(__file__).parents[1] / "protocol" / "golden" / "batches.txt"
    for line in golden.read_text().splitlines():
        yield bytes.fromhex(line.split()[1])
    headers = (("trace", b"\x80\xff"), ("trace", None), ("", b""))
    for codec in Codec:
        yield build([(n, b"k" * n, None, headers[:n]) for n in range(4)], codec=codec) * 2
    yield build([(0, None, bytes(2 * LIMIT), ())], codec=Codec.GZIP)


def records_seeds() -> Iterator[bytes]:
    for log in logs():
        yield from (bytes([choices]) + log for choices in (0, 1, 2))


def compressed(data: bytes) -> None:
    """Decompress bytes. The first byte selects the codec."""
    codec = Codec((data[0] if data else 0) % len(Codec))
    with suppress(BrokenDataError, TooLargeError):
        assert len(decompress(codec, data[1:], LIMIT)) <= LIMIT


def compressed_seeds() -> Iterator[bytes]:
    for codec in Codec:
        for plain in (b"", b"some words, some words", bytes(1000), bytes(2 * LIMIT), Random(1).randbytes(3000)):
            packed = compress(codec, plain)
            yield bytes([codec]) + packed
            yield bytes([codec]) + packed * 2


# -- bytes that members exchange ---------------------------------------------------------------------------


def embedded_protocol(data: bytes) -> None:
    """Decode bytes of another member, which the coordinator passes on unread: subscription, assignment, user data."""
    for read in (decode_subscription, decode_assignment, decode_user_data, decode_previous_assignment):
        with suppress(ProtocolError):
            read(data)  # type: ignore[operator]


def embedded_protocol_seeds() -> Iterator[bytes]:
    for message in (ConsumerProtocolSubscription, ConsumerProtocolAssignment):
        for version in range(4):
            yield from (bytes(made_up(Random(seed), message, version).encode(version=version)) for seed in range(4))
    added = encode_user_data(b"own", [PARTITION, TopicPartition("orders", 7)])
    assert added is not None
    yield added


# -- the embedded broker: requests -------------------------------------------------------------------------


def request(data: bytes) -> None:
    """Send a request to a broker. The first byte selects API and version; the rest is the body."""
    api, version = REQUESTS[(data[0] if data else 0) % len(REQUESTS)]
    tags = b"\0" if MESSAGES[api].flexible_version_q(version) else b""
    header = struct.pack(">hhih", api, version, 1, -1)
    _serve([header + tags + data[1:]])


def request_seeds() -> Iterator[bytes]:
    for number, (api, version) in enumerate(REQUESTS):
        for seed in range(_SEEDS_EACH):
            message = made_up(Random(seed), request_class(api, version), version)
            yield bytes([number]) + bytes(message.encode(version=version))


def connection(data: bytes) -> None:
    """Feed a client's bytes, in pieces of different sizes, to a broker."""
    _serve(_frames(data))


def connection_seeds() -> Iterator[bytes]:
    rng = Random(3)
    for _ in range(100):
        frames = []
        for api, version in rng.sample(REQUESTS, 6):
            tags = b"\0" if MESSAGES[api].flexible_version_q(version) else b""
            body = bytes(made_up(rng, MESSAGES[api], version).encode(version=version))
            frames.append(struct.pack(">hhih", api, version, 1, 2) + b"me" + tags + body)
        yield b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
    newer = struct.pack(">hhih", Api.API_VERSIONS, 99, 1, -1) + b"\0whatever version 99 has"
    yield struct.pack(">i", len(newer)) + newer
    yield b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def _frames(data: bytes) -> Iterator[bytes]:
    reader = FrameReader(LIMIT)
    at, size = 0, 1
    while at < len(data):
        reader.receive(data[at : at + size])
        at, size = at + size, size * 2 % 61 + 1
        while (frame := reader.next_frame()) is not None:
            yield frame


def _serve(frames: Iterable[bytes]) -> None:
    """Serve requests until a frame is not a valid request. Each must get a valid response within a day.

    Requests that the broker may hold for longer are excepted (`_HELD_LONG`).
    """
    kit = ApiKit({"orders": 2})
    pending: list[ReceivedRequest] = []

    def serve(received: ReceivedRequest) -> None:
        def reply(response: Any) -> None:
            pending.remove(received)
            message = answer_class(received.api, 0)
            version = received.version if received.body is not None else 0
            message[version].decode(bytes(encode_answer(received, response)), header=True, framed=True)

        pending.append(received)
        try:
            dispatch(Call(kit.cluster, 0, received, "/fuzz", kit.now, reply))
        except ProtocolError:  # the broker closes the connection
            pending.remove(received)
            raise

    with suppress(ProtocolError):
        for frame in frames:
            serve(decode_request(frame, MESSAGES, SERVED_VERSIONS))
            kit.sleep(5)
    kit.sleep(24 * 3600)
    assert all(held.api in _HELD_LONG for held in pending)


_HELD_LONG = (Api.FETCH, Api.JOIN_GROUP, Api.SYNC_GROUP)
"""Requests that a broker may hold for weeks, because of their own timeout or a member's."""


TARGETS: dict[str, Target] = {
    "answer": Target(answer, answer_seeds),
    "stream": Target(stream, stream_seeds),
    "records": Target(records, records_seeds),
    "compressed": Target(compressed, compressed_seeds),
    "embedded-protocol": Target(embedded_protocol, embedded_protocol_seeds),
    "request": Target(request, request_seeds),
    "connection": Target(connection, connection_seeds),
}
