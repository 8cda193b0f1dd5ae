"""Contenders of the combinations after the first."""

from __future__ import annotations

from bench.consume.rounds import some
from tests.bench.consume.kit import result


def test_later_combinations_have_ours_sarama_and_fastest_peer() -> None:
    results = [
        result("sarameya-marked", 1.0),
        result("sarameya-arrow", 1.0),
        result("aiokafka-getmany", 3.0),
        result("confluent-tuned", 2.0),
        result("confluent-poll", 1.0, failures=("exited with 1",)),
        result("sarama", 0.9),
        result("franz-go", 0.5),
    ]

    assert [contender.name for contender in some(results)] == [
        "sarameya-marked",
        "sarameya-arrow",
        "confluent-tuned",
        "sarama",
    ]
