"""Notifications to the service manager, by the protocol of sd_notify(3): systemd's, and others that speak it.

READY=1 is sent when each member has got its first assignment, STATUS= with each change, STOPPING=1 with the first
signal. While the service starts or stops, the manager's timeout is extended as long as the event loop runs: the app's
own timeouts limit both. WATCHDOG=1 is sent from the event loop, too.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import MutableMapping, Sequence

import trio

from sarameya.service.monitor.members import MemberSource, WorkerStatus
from sarameya.service.monitor.progress_tracker import MEMBER
from sarameya.service.process.signals import Stop
from sarameya.status import GroupStatus

logger = logging.getLogger("sarameya")

EXTENSION = 30.0
"""Seconds by which the manager's timeout is extended while starting or stopping."""
_BEAT = 1.0


class Notifier:
    """Sends notifications to the manager that `environ` names; sends nothing if it names none.

    The variables are removed from `environ`: child processes must not notify the manager.
    """

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        address = environ.pop("NOTIFY_SOCKET", "")
        watchdog, pid = environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", "")
        self._address = b"\0" + os.fsencode(address[1:]) if address.startswith("@") else os.fsencode(address)
        self._watchdog = int(watchdog) / 1e6 if watchdog and pid in ("", str(os.getpid())) else None
        self._started: set[int] = set()
        self._is_ready = False
        self._status = ""
        self._unsent: dict[str, str] = {}
        self._has_failed = False

    async def run(self, stop: Stop, members: MemberSource) -> None:
        """Notify the manager of the members' state, until cancelled."""
        if not self._address:
            return
        while not stop.is_requested:
            self._beat(members.statuses())
            with trio.move_on_after(self._interval):
                await stop.wait()
        self._send(STOPPING="1", STATUS=f"stopping: {stop.cause}")
        while True:
            self._send(EXTEND_TIMEOUT_USEC=_usec(EXTENSION), **self._alive)
            await trio.sleep(self._interval)

    @property
    def _interval(self) -> float:
        # At most half of the watchdog's time, as sd_watchdog_enabled(3) recommends.
        return min(_BEAT, self._watchdog / 2) if self._watchdog else _BEAT

    @property
    def _alive(self) -> dict[str, str]:
        return {"WATCHDOG": "1"} if self._watchdog else {}

    def _beat(self, members: Sequence[WorkerStatus]) -> None:
        fields = self._alive
        statuses = [member.snapshot.status for member in members if member.snapshot is not None]
        self._started |= {m.worker for m in members if m.snapshot is not None and _is_member(m.snapshot.status)}
        if (status := _status_line(statuses, len(members))) != self._status:
            self._status = fields["STATUS"] = status
        if not self._is_ready and members and self._started.issuperset(member.worker for member in members):
            self._is_ready = True
            fields["READY"] = "1"
        if not self._is_ready:
            fields["EXTEND_TIMEOUT_USEC"] = _usec(EXTENSION)
        self._send(**fields)

    def _send(self, **fields: str) -> None:
        """Send the fields. If the manager's socket is full, they are sent with the next beat."""
        self._unsent |= {name: value.replace("\n", " ") for name, value in fields.items()}
        if not self._address or not self._unsent:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager:
                manager.sendto("\n".join(f"{k}={v}" for k, v in self._unsent.items()).encode(), self._address)
        except BlockingIOError:
            return
        except OSError as error:
            # The fields are sent with the next beat, too: a manager without notifications ends the service.
            if not self._has_failed:
                logger.warning("the service manager cannot be notified: %s", error)
            self._has_failed = True
            return
        self._has_failed = False
        self._unsent.clear()


def _is_member(status: GroupStatus) -> bool:
    return status.state in MEMBER


def _status_line(statuses: Sequence[GroupStatus], members: int) -> str:
    """Return the status line: `group orders, generation 3: 2 of 2 members, 8 partitions`."""
    if not statuses:
        return "starting"
    count = sum(map(_is_member, statuses))
    partitions = sum(len(status.partitions) for status in statuses)
    generation = max(status.generation for status in statuses)
    where = f"group {statuses[0].group}, generation {generation}" if count else f"group {statuses[0].group}"
    return f"{where}: {count} of {members} members, {partitions} partitions"


def _usec(seconds: float) -> str:
    return str(round(seconds * 1e6))
