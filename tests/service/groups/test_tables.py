from __future__ import annotations

from sarameya.protocol.cluster.described_groups import ListedGroup
from sarameya.service.groups.reset import OffsetMove
from sarameya.service.groups.tables import (
    assignment_text,
    deletions_text,
    listing_text,
    moves_text,
    printable,
    report_text,
    table,
)
from tests.service.groups.kit import BROKER, group, member, report_of, tp


def test_table_aligns_columns_and_shows_dashes() -> None:
    rows = [("orders", 5, None), ("p", 1234, "x"), ("", None, "yy")]
    assert table(("TOPIC", "N", "WHO"), rows).splitlines() == [
        "TOPIC      N  WHO",
        "orders     5  -",
        "p       1234  x",
        "-          -  yy",
    ]


def test_table_without_rows_is_its_header() -> None:
    assert table(("A", "B"), []) == "A  B"


def test_control_characters_are_escaped() -> None:
    assert printable("a\x1b[2Jb\nc\u202e\ud800é漢") == "a\\x1b[2Jb\\nc\\u202e\\ud800é漢"
    assert table(("G",), [("\x1b]0;owned\x07",)]).splitlines()[1] == "\\x1b]0;owned\\x07"


def test_assignment_is_shown_as_ranges() -> None:
    assert assignment_text({"payments": (1,), "orders": (0, 1, 2, 3, 7, 9, 10), "none": ()}) == (
        "orders:0-3,7,9-10 payments:1"
    )
    assert assignment_text({}) == ""


def test_listing_has_a_line_for_each_group() -> None:
    listed = [
        ListedGroup("orders-landing", "consumer", BROKER, "Stable", "classic"),
        ListedGroup("old", "", BROKER, None, None),
    ]
    assert listing_text(listed).splitlines() == [
        "GROUP           STATE   TYPE     PROTOCOL  COORDINATOR  ADDRESS",
        "orders-landing  Stable  classic  consumer            1  kafka:9092",
        "old             -       -        -                   1  kafka:9092",
    ]


def test_report_has_group_partitions_members_and_advice() -> None:
    report = report_of(
        group(member("a", {"orders": (0, 1)}), member("b", {"orders": (2,)}), member("c", {})),
        committed={"orders-0": 3, "orders-1": 0, "old-0": 9},
        ends={"orders-0": 10, "orders-1": 2, "orders-2": 0},
        missing={"old-0": "no such partition"},
    )
    assert report_text(report) == "\n".join(
        [
            "GROUP g",
            "  state        Stable",
            "  members      3",
            "  lag          9, without 2 partitions whose lag is not known",
            "  coordinator  1 at kafka:9092, leader of __consumer_offsets-3 of 50",
            "  protocol     consumer (classic)",
            "  assignor     range",
            "",
            "TOPIC   PARTITION  COMMITTED  LOG-END  LAG  MEMBER  CLIENT  HOST",
            "old             0          9        -    -  -       -       -",
            "orders          0          3       10    7  a-id    a       /a",
            "orders          1          0        2    2  a-id    a       /a",
            "orders          2          -        0    -  b-id    b       /b",
            "",
            "MEMBER  INSTANCE  CLIENT  HOST  PARTITIONS  ASSIGNMENT",
            "a-id    -         a       /a             2  orders:0-1",
            "b-id    -         b       /b             1  orders:2",
            "c-id    -         c       /c             0  -",
            "",
            "old-0: the log's end is not known: no such partition",
            "3 partitions, 3 members: assigned unevenly, 0 to 2 each, 1 idle; range assigns each topic by itself, "
            "other assignors assign all of them together",
        ]
    )


def test_undecoded_member_is_shown_with_the_reason() -> None:
    report = report_of(group(member("a", None, problem="not known while the group rebalances"), state="Stable"))
    assert report_text(report).splitlines()[-1] == (
        "a-id    -         a       /a    -           (not known while the group rebalances)"
    )


def test_empty_group_without_commits_has_only_a_header() -> None:
    report = report_of(group(state="Empty", protocol_type="", assignor=""), offsets_partitions=None)
    assert report_text(report).splitlines() == [
        "GROUP g",
        "  state        Empty",
        "  members      0",
        "  lag          -",
        "  coordinator  1 at kafka:9092",
        "  protocol     - (classic)",
        "  assignor     -",
        "",
        "no members: nothing is read",
    ]


MOVES = [
    OffsetMove(tp("orders-0"), 15, 10, 10, 20, ""),
    OffsetMove(tp("orders-1"), None, 0, 0, 0, "no message at or after this time: the end of the log"),
    OffsetMove(tp("old-0"), 3, None, note="left as it is: gone"),
    OffsetMove(tp("orders-2"), 1, None, 0, 5, error="TOPIC_AUTHORIZATION_FAILED (29)"),
]


def test_reset_shows_old_and_new_offset_and_lag() -> None:
    assert moves_text(MOVES).splitlines() == [
        "TOPIC   PARTITION  COMMITTED  NEW  LAG  NEW-LAG  NOTE",
        "orders          0         15   10    5       10  -",
        "orders          1          -    0    -        0  no message at or after this time: the end of the log",
        "old             0          3    -    -        -  left as it is: gone",
        "orders          2          1    -    4        -  not changed: TOPIC_AUTHORIZATION_FAILED (29)",
    ]


def test_deletion_shows_the_deleted_commits() -> None:
    assert deletions_text(MOVES[:1]).splitlines() == [
        "TOPIC   PARTITION  COMMITTED  NOTE",
        "orders          0         15  -",
    ]
