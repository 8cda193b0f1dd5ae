from __future__ import annotations

from sarameya.net.log_offsets import LogOffsets
from sarameya.protocol.cluster.described_topics import DescribedPartition, DescribedTopic
from sarameya.service.topics.report import TopicReport, report_document, report_text
from tests.service.groups.kit import tp

UNHEALTHY = DescribedTopic(
    "orders",
    None,
    (
        DescribedPartition(tp("orders-0"), None, 7, (1, 2), ()),
        DescribedPartition(tp("orders-1"), 2, 3, (1, 2), (2,)),
        DescribedPartition(tp("orders-2"), 1, 3, (1, 2), (1, 2)),
    ),
)


def test_problems_are_listed_below_the_table() -> None:
    known = LogOffsets({tp("orders-1"): 4}, {tp("orders-2"): "REQUEST_TIMED_OUT (7)"})
    report = TopicReport(UNHEALTHY, known, known, {"retention.ms": "5", "a.password": None})
    lines = report_text(report).splitlines()
    assert lines[1:7] == [
        "  id              -",
        "  partitions      3",
        "  replicas        2",
        "  offsets         -",
        "  settings",
        "    a.password    ***",
    ]
    assert lines[9:] == [
        "PARTITION  LEADER  EPOCH  REPLICAS  IN-SYNC  LOG-START  LOG-END",
        "        0       -      7  1,2       -                -        -",
        "        1       2      3  1,2       2                4        4",
        "        2       1      3  1,2       1,2              -        -",
        "",
        "orders-0: no leader, so that nothing is read or written; is a broker down?",
        "orders-0, orders-1: not every replica is in sync",
        "orders-2: the log's offsets are not known: REQUEST_TIMED_OUT (7)",
    ]
    document = report_document(report)
    assert document["advice"] == lines[-3:]
    assert document["partitions"][2]["problem"] == "REQUEST_TIMED_OUT (7)"
    assert document["settings"] == {"retention.ms": "5", "a.password": None}
