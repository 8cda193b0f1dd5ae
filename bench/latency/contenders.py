"""Contenders: each client with its defaults, and the two that have a goal also tuned for low latency."""

from __future__ import annotations

from bench.members.clients import Contender

TUNED = "-tuned"
"""Suffix of the names of tuned contenders."""

_DEFAULTS = (
    Contender("sarameya", "sarameya", commits=True),
    Contender("aiokafka", "aiokafka", "loop", commits=True),
    Contender("confluent-kafka", "confluent-kafka", "poll", commits=True),
    Contender("sarama", "sarama", commits=True),
    Contender("franz-go", "franz-go", commits=True),
)
_TUNED = (
    Contender(f"sarameya{TUNED}", "sarameya"),
    Contender(f"confluent-kafka{TUNED}", "confluent-kafka", "poll", {"socket.nagle.disable": True}),
)
CONTENDERS = (*_DEFAULTS, *_TUNED)
