"""Settings that apply to each partition of a sink."""

from __future__ import annotations

import attrs

from sarameya.option_kinds import count, optional
from sarameya_handlers.landing.dead_letters.letters import DeadLetters
from sarameya_handlers.spark.options import Limits
from sarameya_handlers.spark.sink.flush import OnPhase


@attrs.frozen(slots=True, kw_only=True)
class SinkSettings:
    """Settings of a sink, from its options and its table."""

    limits: Limits
    allows_gaps: bool = False
    """True if records that are gone from the log, or that the group's commit has skipped, become a gap in the chain.
    False raises an error."""
    retry_for: float = 900.0
    """Seconds for which a failed flush is retried before it ends the session."""
    file_bytes: int | None = attrs.field(default=None, validator=optional(count))
    """Wanted size of data files; None: `limits` alone bound a flush."""
    restate_after: float | None = None
    """Seconds after which an idle chain's head is rewritten, because the table forgets; None never rewrites it."""
    dead_letters: DeadLetters | None = None
    waits_for_remedy: bool = False
    """True if a partition waits until somebody has removed the cause of a failure. False ends the session: the sink has
    no other table whose partitions would be held back."""
    is_transformed: bool = False
    """True if a transform makes the rows, so that links do not tell how many rows their records must have."""
    on_phase: OnPhase = attrs.field(default=lambda phase, landings: None)
