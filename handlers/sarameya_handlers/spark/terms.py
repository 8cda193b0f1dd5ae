"""What holds for each partition of a sink."""

from __future__ import annotations

import attrs

from sarameya_handlers.landing.dead_letters import DeadLetters
from sarameya_handlers.spark.landing import OnPhase
from sarameya_handlers.spark.options import Limits


@attrs.frozen(slots=True, kw_only=True)
class Terms:
    """Set once, by the sink's options and its table."""

    limits: Limits
    may_leave_out: bool = False
    """Whether records that are gone from the log, or that the group's commit was moved beyond, become a gap in the
    chain, rather than an error."""
    retry_for: float = 900.0
    """Seconds for which a landing is tried again before its failure ends the session."""
    file_bytes: int | None = None
    """How large files should be; None leaves it to the limits."""
    restate_after: float | None = None
    dead_letters: DeadLetters | None = None
    on_phase: OnPhase = attrs.field(default=lambda phase, landings: None)
