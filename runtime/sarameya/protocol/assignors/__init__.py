"""The assignors of Sarameya, by Kafka's names for them, and the base class for others."""

from __future__ import annotations

from collections.abc import Mapping

from sarameya.config import RebalanceStrategy
from sarameya.protocol.assignors.base import (
    Assignor,
    RebalanceProtocol,
    Subscription,
    TopicLayout,
    in_order,
    subscribed_topics,
)
from sarameya.protocol.assignors.cooperative_sticky import CooperativeStickyAssignor
from sarameya.protocol.assignors.range import RangeAssignor
from sarameya.protocol.assignors.round_robin import RoundRobinAssignor
from sarameya.protocol.assignors.sticky import StickyAssignor

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "TopicLayout",
    "in_order",
    "subscribed_topics",
]

ASSIGNORS: Mapping[RebalanceStrategy, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
"""Assignor class for each value of `Config.rebalance_strategies` (`config.RebalanceStrategy`)."""
