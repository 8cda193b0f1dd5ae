"""Observer that writes to the log."""

from __future__ import annotations

import logging

import attrs

from sarameya.observe import events
from sarameya.observe.events import Event
from sarameya.observe.overdue import HandlerOverdue, HandlerReturned

logger = logging.getLogger("sarameya")

_USUAL_ATTEMPTS = 2
"""Number of attempts whose failure is normal, for example while a coordinator is created or a leader moves."""

_LEVELS: dict[type[Event], int] = {
    events.Retrying: logging.WARNING,
    events.ConnectionLost: logging.WARNING,
    events.CommitFailed: logging.WARNING,
    events.ClaimCancelled: logging.WARNING,
    events.CallCancelled: logging.WARNING,
    events.LeaveFailed: logging.WARNING,
    events.TaskStuck: logging.ERROR,
    HandlerOverdue: logging.WARNING,
    HandlerReturned: logging.INFO,
    events.LoopBlocked: logging.WARNING,
    events.OffsetReset: logging.WARNING,
    events.InterceptorFailed: logging.WARNING,
    events.InterceptorRecovered: logging.INFO,
    events.SessionStarted: logging.INFO,
    events.SessionEnding: logging.INFO,
    events.GroupLeft: logging.INFO,
    events.PartitionsAssigned: logging.INFO,
    events.PartitionsRevoked: logging.INFO,
    events.PartitionsPaused: logging.INFO,
    events.PartitionsResumed: logging.INFO,
    events.ReadReplicaChanged: logging.INFO,
    events.PartitionBackpressured: logging.INFO,
    events.BackpressureEnded: logging.INFO,
    events.FetchBufferFull: logging.WARNING,
    events.CoordinatorFound: logging.INFO,
    events.TlsFilesRenewed: logging.INFO,
    events.TlsFilesRefused: logging.ERROR,
    events.RenewalFailed: logging.WARNING,
    events.WeakSecurity: logging.WARNING,
}


def event_level(event: Event) -> int:
    """Return the level at which the event is logged: INFO or above for events that an operator may act on."""
    if isinstance(event, events.Retrying) and event.attempt <= _USUAL_ATTEMPTS:
        return logging.INFO
    return _LEVELS.get(type(event), logging.DEBUG)


def log_event(event: Event) -> None:
    """Write the event to the `sarameya` logger.

    For formatters of structured logs, records have the event's class name as `event` and its fields as `fields`.
    """
    log_event_at(event, event_level(event))


def log_event_at(event: Event, level: int) -> None:
    """Write the event at this level."""
    if logger.isEnabledFor(level):
        fields = attrs.asdict(event, recurse=False)
        logger.log(level, "%s", event, extra={"event": type(event).__name__, "fields": fields})
