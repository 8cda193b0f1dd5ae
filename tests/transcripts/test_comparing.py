"""The comparison: differences, rows of known ones that cover them, and rows that cover none."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import attrs
import pytest
from kafka.protocol.admin import ListGroupsResponse
from kafka.protocol.consumer import FetchResponse, JoinGroupResponse
from kafka.protocol.producer import ProduceResponse

from sarameya.protocol.records.compression import Codec
from tests.embedded.api_kit import request as message
from tests.transcripts import differences, golden
from tests.transcripts.batches import batch, described
from tests.transcripts.differences import EMBEDDED, complaints
from tests.transcripts.known import Known
from tests.transcripts.responses import ABSENT, Names, compare, plain
from tests.transcripts.script import Transcript

MEMBER = "a-3e1cd4d3-7f4f-4f36-8d6c-5c1f6bb2a7c9"


class TestNames:
    def test_member_is_named_after_its_first_connection(self) -> None:
        names = Names("g")
        names.learn_member(MEMBER, "a", None, nth=0)

        assert names.of(MEMBER) == "<a>"

    def test_id_of_an_unusual_form_has_its_form(self) -> None:
        names = Names("g")
        names.learn_member(f"x{MEMBER}", "a", None, nth=0)

        assert names.of(f"x{MEMBER}") == "<a, in the form xa-uuid>"

    def test_unknown_member_is_named_after_its_client(self) -> None:
        assert Names("g").of(MEMBER) == "<a member of a>"

    def test_only_groups_of_the_play_get_names(self) -> None:
        names = Names("play-1")

        assert [names.of(group) for group in ("play-1", "play-1-other", "play-10")] == [
            "<group>",
            "<group other>",
            "play-10",
        ]


def test_recorded_response_has_names_and_is_sorted() -> None:
    names = Names("g")
    names.learn_member(MEMBER, "a", None, nth=0)
    members = [{"member_id": "z", "metadata": b"\0"}, {"member_id": MEMBER, "metadata": b"m"}]
    answer = message(
        JoinGroupResponse,
        2,
        throttle_time_ms=5,
        error_code=25,
        generation_id=1,
        protocol_name="range",
        leader=MEMBER,
        member_id="z",
        members=members,
    )

    assert plain(answer, names) == {
        "error_code": "UNKNOWN_MEMBER_ID",
        "generation_id": 1,
        "protocol_name": "range",
        "leader": "<a>",
        "member_id": "z",
        "members": [{"member_id": "<a>", "metadata": "m"}, {"member_id": "z", "metadata": "\\x00"}],
    }


def test_recorded_listing_has_only_groups_of_the_play() -> None:
    groups = [{"group_id": group, "protocol_type": ""} for group in ("others", "g")]
    answer = message(ListGroupsResponse, 0, error_code=0, groups=groups)

    assert plain(answer, Names("g"))["groups"] == [{"group_id": "<group>", "protocol_type": ""}]


class TestResponsesAboutLogs:
    TOPIC_ID = uuid.UUID(int=7)

    @pytest.fixture
    def names(self) -> Names:
        names = Names("play-1")
        names.learn_topic(self.TOPIC_ID, "orders")
        names.learn_producer(4711, "a")
        names.learn_session(815, "a")
        names.learn_broker(2, 1, "localhost", 9093)
        return names

    def test_ids_are_named_after_their_owners(self, names: Names) -> None:
        partition = {"partition_index": 0, "aborted_transactions": [{"producer_id": 4711, "first_offset": 3}]}
        recorded = [
            plain(message(FetchResponse, version, session_id=815, responses=[topic]), names)
            for version, topic in [
                (12, {"topic": "play-1.orders", "partitions": [partition]}),
                (13, {"topic_id": self.TOPIC_ID, "partitions": [partition]}),
            ]
        ]

        assert recorded[0] == recorded[1]
        assert recorded[0]["session_id"] == "<session of a>"
        [topic] = recorded[0]["responses"]
        assert topic["topic"] == "<orders>"
        assert topic["partitions"][0]["aborted_transactions"] == [{"producer_id": "<producer of a>", "first_offset": 3}]

    def test_second_id_of_a_client_is_numbered(self, names: Names) -> None:
        names.learn_producer(4712, "a")
        names.learn_producer(4711, "a")

        assert [names.producer(number) for number in (4711, 4712, 1)] == [
            "<producer of a>",
            "<producer of a, number 2>",
            "producer 1",
        ]

    @pytest.mark.parametrize(
        ("port", "expected"),
        [
            (9093, {"node_id": "<broker 1>", "host": "<its host>", "port": "<its port>", "rack": None}),
            (9094, {"node_id": "<broker 1>", "host": "localhost", "port": 9094, "rack": None}),
        ],
    )
    def test_brokers_address_gets_a_name_only_if_right(self, names: Names, port: int, expected: Any) -> None:
        endpoint = {"node_id": 2, "host": "localhost", "port": port, "rack": None}
        answer = message(FetchResponse, 16, responses=[], node_endpoints=[endpoint])

        assert plain(answer, names)["node_endpoints"] == [expected]

    def test_optional_fields_with_their_defaults_are_omitted(self, names: Names) -> None:
        partition = {"index": 0, "error_code": 0, "base_offset": 5, "log_append_time_ms": -1, "record_errors": []}
        topics = [{"name": "play-1.orders", "partition_responses": [partition]}]

        assert plain(message(ProduceResponse, 8, responses=topics), names) == {
            "responses": [
                {
                    "name": "<orders>",
                    "partition_responses": [
                        {
                            "index": 0,
                            "error_code": "NONE",
                            "base_offset": 5,
                            "log_start_offset": -1,
                            "error_message": None,
                        }
                    ],
                }
            ]
        }


_ONE = batch("a").encoded(-1, -1)


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (b"", ""),
        (batch("a", "b").encoded(-1, -1), "0-1 (epoch -1): a b"),
        (batch("x" * 99, codec=Codec.GZIP).encoded(-1, -1), "0 (epoch -1, gzip): x...x of 99"),
        (batch("a", sequence=7, transactional=True).encoded(3, 1), "0 (epoch -1, transactional, <3> 1/7): a"),
        (b"%b\0\0\0\0%b" % (_ONE[:17], _ONE[21:]), "0 (epoch -1, wrong CRC): a"),
        (_ONE + _ONE[:-1], "0 (epoch -1): a | <cut off>"),
    ],
    ids=["nothing", "two", "compressed", "transactional", "wrong_crc", "cut_off"],
)
def test_records_are_described_batch_by_batch(records: bytes, text: str) -> None:
    assert described(records, lambda producer_id: f"<{producer_id}>") == text


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        ({"error_code": "NONE"}, {"error_code": "NONE"}, []),
        ("held", "held", []),
        ("held", {"error_code": "NONE"}, [("", "held", "answered NONE")]),
        ({"a": None}, {"a": ""}, [("a", None, "")]),
        ({"a": 1, "b": 2}, {"b": 2}, [("a", 1, ABSENT)]),
        (
            {"topics": [{"name": "t", "x": 1}, {"name": "u", "x": 1}]},
            {"topics": [{"name": "u", "x": 2}]},
            [("topics.t.name", "t", ABSENT), ("topics.t.x", 1, ABSENT), ("topics.u.x", 1, 2)],
        ),
        ({"topics": []}, {"topics": [{"name": "t"}]}, [("topics", [], ABSENT), ("topics.t.name", ABSENT, "t")]),
        ({"operations": [1, 2]}, {"operations": [1]}, [("operations", [1, 2], [1])]),
    ],
)
def test_responses_are_compared_field_by_field(expected: Any, actual: Any, found: list[Any]) -> None:
    assert compare(expected, actual) == found


class TestComplaints:
    ROW = Known("a reason", "a *", "a HEARTBEAT*", "error_code", "NONE", "UNKNOWN_*")

    @pytest.fixture
    def known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(differences, "KNOWN", {EMBEDDED: (self.ROW,)})

    @staticmethod
    def plays(code: str, transcript: str = "a play") -> golden.Plays:
        return {(transcript, "3.9"): {"a HEARTBEAT #2": {"error_code": code}}}

    def complaints(self, kafka: str, here: str, transcript: str = "a play") -> list[str]:
        return complaints(EMBEDDED, self.plays(kafka, transcript), self.plays(here, transcript))

    @pytest.mark.usefixtures("known")
    def test_known_difference_is_no_complaint(self) -> None:
        assert self.complaints("NONE", "UNKNOWN_MEMBER_ID") == []

    @pytest.mark.usefixtures("known")
    def test_row_that_covers_nothing_is_a_complaint(self) -> None:
        [complaint] = self.complaints("NONE", "NONE")

        assert "no longer a difference" in complaint

    @pytest.mark.usefixtures("known")
    @pytest.mark.parametrize(
        ("kafka", "here", "transcript"),
        [("NONE", "ILLEGAL_GENERATION", "a play"), ("ILLEGAL_GENERATION", "NONE", "a play"), ("NONE", "UNKNOWN_", "b")],
    )
    def test_unknown_difference_is_a_complaint_with_both_values(self, kafka: str, here: str, transcript: str) -> None:
        complaint, _ = self.complaints(kafka, here, transcript)

        assert transcript in complaint
        assert f"Kafka 4.1: '{kafka}'" in complaint
        assert f"here:      '{here}'" in complaint

    @pytest.mark.usefixtures("known")
    def test_missing_step_is_a_complaint(self) -> None:
        complaint, _ = complaints(EMBEDDED, self.plays("NONE"), {("a play", "3.9"): {}})

        assert "here:      'absent'" in complaint

    @pytest.mark.usefixtures("known")
    def test_missing_play_is_a_complaint(self) -> None:
        here = self.plays("UNKNOWN_MEMBER_ID")
        kafka = {**self.plays("NONE"), ("a second", "2.1"): {}}

        assert complaints(EMBEDDED, kafka, here) == ["a second (2.1): not played"]

    def test_row_marked_by_chance_may_cover_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(differences, "KNOWN", {EMBEDDED: (attrs.evolve(self.ROW, by_chance=True),)})

        assert self.complaints("NONE", "NONE") == []
        assert self.complaints("NONE", "UNKNOWN_MEMBER_ID") == []


def test_transcript_for_a_cluster_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="brokers"):
        Transcript("on two", (), brokers=2)


@pytest.mark.parametrize("row", [row for rows in differences.KNOWN.values() for row in rows], ids=lambda row: row.step)
def test_row_names_its_field_and_both_values(row: Known) -> None:
    assert "*" not in (row.field, row.kafka, row.here)


def test_saved_golden_file_is_loaded_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "_DIRECTORY", tmp_path)
    plays = {
        ("one", "2.1"): {"a JOIN_GROUP": "held", "the group": "Empty"},
        ("one", "2.3"): {"a JOIN_GROUP": {"error_code": "NONE", "metadata": "größer"}},
        ("one", "3.9"): {"a JOIN_GROUP": "held", "the group": "Empty"},
        ("two", "3.9"): {},
    }

    golden.save("theme", plays)

    assert golden.load("theme") == plays
    assert '"2.1, 3.9": {' in (tmp_path / "theme.json").read_text(encoding="utf-8")
