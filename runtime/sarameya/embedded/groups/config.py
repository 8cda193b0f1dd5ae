"""Settings of the group coordinator, under Kafka's names and with Kafka's defaults unless stated otherwise."""

from __future__ import annotations

import attrs

from sarameya.embedded.groups.heartbeat_checks import MEMBER_FIRST, HeartbeatChecks


@attrs.frozen(slots=True)
class CoordinatorConfig:
    """Settings of a group coordinator. Times are in seconds."""

    min_session_timeout: float = 6.0
    """group.min.session.timeout.ms; a shorter one is refused with INVALID_SESSION_TIMEOUT."""
    max_session_timeout: float = 1800.0
    """group.max.session.timeout.ms; a longer one is refused with INVALID_SESSION_TIMEOUT."""
    max_size: int = 2**31 - 1
    """group.max.size; further members are refused with GROUP_MAX_SIZE_REACHED."""
    initial_rebalance_delay: float = 0.0
    """group.initial.rebalance.delay.ms: how long an empty group waits for more members after the first.

    Kafka's default is 3 s; here a group of one member starts at once.
    """
    new_member_join_timeout: float = 300.0
    """The time that a new member's first join may wait for its response (a constant in Kafka)."""
    offsets_retention: float = 7 * 24 * 3600.0
    """offsets.retention.minutes, but in seconds: how long unused commits are kept (KIP-211)."""
    offsets_retention_check_interval: float = 600.0
    """offsets.retention.check.interval.ms: time between two checks, which delete expired offsets and empty groups.

    math.inf: never.
    """
    load_time: float = 0.0
    """The time that a new coordinator takes to load its groups. In Kafka this depends on the log.

    Until then the coordinator answers COORDINATOR_LOAD_IN_PROGRESS, but NONE to heartbeats.
    """
    offset_metadata_max_size: int = 4096
    """offset.metadata.max.bytes, in characters as in Kafka; longer ones are refused with OFFSET_METADATA_TOO_LARGE."""
    heartbeat_checks: HeartbeatChecks = MEMBER_FIRST
    """The checks of a heartbeat and their order.

    `heartbeat_checks.MEMBER_FIRST` is today's Kafka, `heartbeat_checks.STATE_FIRST` is Kafka 0.9.
    """


DEFAULTS = CoordinatorConfig()
