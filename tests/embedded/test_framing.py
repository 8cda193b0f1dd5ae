"""Decoding of requests: only complete and valid ones reach a handler."""

import contextlib
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from kafka.protocol.producer import ProduceRequest

from sarameya.embedded.apis import MESSAGES, SERVED_VERSIONS
from sarameya.embedded.network.framing import FrameReader, ReceivedRequest, decode_request, encode_answer
from sarameya.errors import ProtocolError
from sarameya.protocol.versions import Api
from tests.embedded.api_kit import batch


def encoded(request: object) -> bytes:
    request.with_header(correlation_id=5, client_id="me")  # type: ignore[attr-defined]
    return bytes(request.encode(header=True))  # type: ignore[attr-defined]


def heartbeat(version: int = 4) -> bytes:
    return encoded(HeartbeatRequest[version](group_id="group", generation_id=3, member_id="member"))


def decoded(frame: bytes) -> ReceivedRequest:
    return decode_request(frame, MESSAGES, SERVED_VERSIONS)


class TestFrames:
    @given(st.lists(st.binary(max_size=50), max_size=10), st.data())
    def test_any_cut_of_the_stream_gives_the_same_frames(self, frames: list[bytes], data: st.DataObject) -> None:
        stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in frames)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
        reader, received = FrameReader(), []
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            reader.receive(stream[start:end])
            while (frame := reader.next_frame()) is not None:
                received.append(frame)
        assert received == frames
        assert reader.is_empty

    @pytest.mark.parametrize("size", [-1, 101, 2**31 - 1])
    def test_invalid_frame_size_is_refused_before_its_bytes(self, size: int) -> None:
        reader = FrameReader(max_size=100)
        reader.receive(struct.pack(">i", size))
        with pytest.raises(ProtocolError, match=str(size)):
            reader.next_frame()

    def test_reader_with_half_a_frame_is_not_empty(self) -> None:
        reader = FrameReader()
        reader.receive(b"\0\0\0\x09half")
        assert reader.next_frame() is None
        assert not reader.is_empty


class TestRequests:
    def test_header_and_body_are_decoded(self) -> None:
        request = decoded(heartbeat())
        assert (request.api, request.version, request.correlation_id, request.client_id) == (Api.HEARTBEAT, 4, 5, "me")
        assert (request.body.group_id, request.body.generation_id) == ("group", 3)

    def test_client_id_may_be_null_or_non_ascii(self) -> None:
        whole = heartbeat()
        for client_id, data in (("", b"\xff\xff"), ("t\u00e9st", b"\x00\x05t\xc3\xa9st"), ("", b"\x00\x00")):
            assert decoded(whole[:8] + data + whole[12:]).client_id == client_id

    def test_tagged_fields_of_the_header_are_skipped(self) -> None:
        whole = heartbeat()
        tags = b"\x02" + b"\x00\x03abc" + b"\x81\x01\x00"  # tag 0 of three bytes, tag 129 of none
        assert whole[12:13] == b"\0"
        assert decoded(whole[:12] + tags + whole[13:]).body.group_id == "group"
        with pytest.raises(ProtocolError, match="varint of more than five bytes"):
            decoded(whole[:12] + b"\xff" * 5 + whole[13:])

    def test_response_has_the_bytes_of_kafka_python(self) -> None:
        for version in (3, 4):
            for answer in (HeartbeatResponse(error_code=27), ApiVersionsResponse(error_code=0, api_keys=[])):
                message = HeartbeatRequest if isinstance(answer, HeartbeatResponse) else ApiVersionsRequest
                frame = bytes(encode_answer(decoded(encoded(message[version]())), answer))
                answer.with_header(correlation_id=5)
                assert frame == bytes(answer.encode(header=True, framed=True))

    def test_only_a_produce_without_acks_expects_no_response(self) -> None:
        def produce(acks: int) -> ReceivedRequest:
            return decoded(encoded(ProduceRequest[9](acks=acks, timeout_ms=1, topic_data=[])))

        assert [produce(acks).expects_answer for acks in (0, 1, -1)] == [False, True, True]
        assert decoded(heartbeat()).expects_answer

    @pytest.mark.parametrize("version", [0, 3, 4])
    def test_truncated_request_is_refused(self, version: int) -> None:
        whole = heartbeat(version)
        for length in range(len(whole)):
            with pytest.raises(ProtocolError):
                decoded(whole[:length])

    def test_truncated_records_are_refused(self) -> None:
        request = ProduceRequest[3](acks=1, timeout_ms=1, topic_data=[("t", [(0, batch(b"value"))])])
        with pytest.raises(ProtocolError, match=r"PRODUCE version 3: records: \d+ announced, \d+ bytes left"):
            decoded(encoded(request)[:-1])

    def test_unknown_api_is_refused(self) -> None:
        for key in (-1, 4, 9999):
            with pytest.raises(ProtocolError, match=f"key {key}, version 0"):
                decoded(struct.pack(">hhi", key, 0, 1) + b"\xff\xff")

    def test_unserved_version_is_refused_with_the_served_ones(self) -> None:
        with pytest.raises(ProtocolError, match=r"FETCH version 3 is not served \(served: 4..18\)"):
            decoded(encoded(FetchRequest[3](max_wait_ms=1, min_bytes=1, topics=[])))

    def test_null_that_the_schema_does_not_allow_is_refused(self) -> None:
        join = {"group_id": "g", "session_timeout_ms": 1, "member_id": "", "protocol_type": "consumer"}
        with pytest.raises(ProtocolError, match="protocols is null"):
            decoded(encoded(JoinGroupRequest[5](**join, protocols=None)))
        with pytest.raises(ProtocolError, match="name is null"):
            decoded(encoded(JoinGroupRequest[5](**join, protocols=[(None, b"")])))
        allowed = decoded(encoded(JoinGroupRequest[5](**join, protocols=[("range", b"")], group_instance_id=None)))
        assert allowed.body.group_instance_id is None

    def test_unknown_version_of_api_versions_is_answered_in_v0(self) -> None:
        # The header of version 99 is flexible. Its body is unknown, so it is not read (KIP-511).
        frame = struct.pack(">hhih", Api.API_VERSIONS, 99, 5, -1) + b"\0" + b"whatever version 99 has"
        request = decoded(frame)
        assert request.body is None
        answer = encode_answer(request, ApiVersionsResponse(error_code=35, api_keys=[]))
        assert bytes(answer) == struct.pack(">iihi", 10, 5, 35, 0)

    def test_newest_api_versions_is_decoded(self) -> None:
        body = decoded(encoded(ApiVersionsRequest[4](client_software_name="x", client_software_version="1"))).body
        assert body.client_software_name == "x"

    @given(st.binary(max_size=200))
    @example(b"")
    def test_random_bytes_decode_or_raise_a_protocol_error(self, frame: bytes) -> None:
        with contextlib.suppress(ProtocolError):
            decoded(frame)

    @settings(max_examples=500)
    @given(
        st.sampled_from([(api, v) for api, (low, high) in SERVED_VERSIONS.items() for v in range(low, high + 1)]),
        st.binary(max_size=120),
    )
    def test_random_bodies_decode_or_raise_a_protocol_error(self, served: tuple[Api, int], body: bytes) -> None:
        api, version = served
        header = struct.pack(">hhih", api, version, 1, -1)
        if MESSAGES[api].flexible_version_q(version):
            header += b"\0"
        with contextlib.suppress(ProtocolError):
            decoded(header + body)
