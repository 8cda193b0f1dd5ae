"""The coordinator's settings, by Kafka's names and with Kafka's defaults where nothing else is said."""

from __future__ import annotations

import attrs

from sarameya.embedded.groups.heartbeat_checks import MEMBER_FIRST, HeartbeatChecks


@attrs.frozen(slots=True)
class CoordinatorConfig:
    """Times are seconds."""

    min_session_timeout: float = 6.0
    """group.min.session.timeout.ms; a shorter one is refused with INVALID_SESSION_TIMEOUT."""
    max_session_timeout: float = 1800.0
    """group.max.session.timeout.ms; a longer one is refused with INVALID_SESSION_TIMEOUT."""
    max_size: int = 2**31 - 1
    """group.max.size; members beyond it are refused with GROUP_MAX_SIZE_REACHED."""
    initial_rebalance_delay: float = 0.0
    """group.initial.rebalance.delay.ms: how long an empty group waits for more members after the first.
    Kafka ships 3 s; here a group of one should start at once."""
    new_member_join_timeout: float = 300.0
    """How long a new member's first join may wait for its answer (a constant in Kafka)."""
    offsets_retention: float = 7 * 24 * 3600.0
    """offsets.retention.minutes, in seconds: how long commits are kept that nobody reads by (KIP-211)."""
    offsets_retention_check_interval: float = 600.0
    """offsets.retention.check.interval.ms: how often is looked for expired offsets, and for groups to forget
    (those that are Empty and keep nothing). math.inf: never."""
    load_time: float = 0.0
    """How long a coordinator that takes groups over reads their log. Meanwhile it answers for them
    COORDINATOR_LOAD_IN_PROGRESS (to a heartbeat: no error). In Kafka it takes what it takes; here no time."""
    offset_metadata_max_size: int = 4096
    """offset.metadata.max.bytes, in characters as in Kafka; beyond it: OFFSET_METADATA_TOO_LARGE."""
    heartbeat_checks: HeartbeatChecks = MEMBER_FIRST
    """What a heartbeat is answered, and in which order that is found out: `heartbeats.MEMBER_FIRST` as today's Kafka,
    `heartbeats.STATE_FIRST` as Kafka 0.9."""


DEFAULTS = CoordinatorConfig()
