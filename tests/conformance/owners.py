"""Owners of a chain without a group, who append links as a sink does. The value of each row is the attempt's id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import attrs
import pyarrow as pa

from sarameya.arrow import kafka_schema
from sarameya_handlers.landing.chain import Chain, Outcome, Settled
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.spark.sink.flush import OnPhase, flush, read_links
from sarameya_handlers.spark.tables.table import Landing, PendingLink, Phase, Shape, Table
from tests.conformance.invariants import offsets, prove_audit, prove_chain, prove_rows, prove_winners

KEY = ChainKey("conformance", "orders", 0)
ORIGIN = Origin(group="landing", topic_id="0123456789abcdef" * 2)


def records(key: ChainKey, offsets: range, value: str) -> pa.Table:
    """Return records with these offsets, all with this value."""
    count = len(offsets)
    columns: dict[str, list[Any]] = {
        "key": [None] * count,
        "value": [value.encode()] * count,
        "topic": [key.topic] * count,
        "partition": [key.partition] * count,
        "offset": list(offsets),
        "timestamp": [1_700_000_000_000_000] * count,
        "timestampType": [0] * count,
        "headers": [None] * count,
    }
    return pa.table(columns, schema=kafka_schema())


class Owner:
    """A writer that owns a chain, or believes so. It starts at the table's head or, without a head, at `begin`."""

    def __init__(
        self,
        table: Table,
        spark: Any,
        shape: Shape,
        *,
        key: ChainKey = KEY,
        origin: Origin = ORIGIN,
        begin: int = 0,
    ) -> None:
        self._table = table
        self._spark = spark
        self._shape = shape
        self._key = key
        self.chain = Chain(key, origin, table.heads(spark, [key]).get(key))
        self._begin = begin
        self.error: Exception | None = None
        """The exception of the last attempt. The attempt may have succeeded in spite of it."""
        self.unsettled: Link | None = None
        """The last attempt, if reading its outcome failed. It must be settled before the next attempt."""

    @property
    def position(self) -> int:
        """Start offset of the next link."""
        return self.chain.head.to_offset if self.chain.head else self._begin

    def append(self, count: int, on_phase: OnPhase = lambda phase, landings: None) -> Settled:
        """Try to append a link of `count` records once, and return its outcome from the table."""
        link = self.propose(count)
        self.error = None
        try:
            self.land(link, on_phase)
        except Exception as error:
            self.error = error
        return self.settle(link)

    def append_until_present(self, count: int, on_phase: OnPhase = lambda phase, landings: None) -> tuple[Settled, int]:
        """Retry until the table has the link, of this owner or of another one.

        Returns:
            The outcome, and the number of attempts after which no link was there.
        """
        absent = 0
        while (settled := self.append(count, on_phase)).outcome is Outcome.ABSENT:
            absent += 1
            if absent > 20:
                raise AssertionError(f"no attempt has appended link {self.chain.next_number}") from self.error
        return settled, absent

    def propose(self, count: int) -> Link:
        return self.chain.propose(self.position, self.position + count, attempt=uuid4().hex, rows=-1, records=count)

    def land(self, link: Link, on_phase: OnPhase = lambda phase, landings: None) -> None:
        rows = records(link.key, range(link.from_offset, link.to_offset), link.attempt)
        flush(
            self._spark,
            lambda: None,
            pending=[PendingLink(link, rows)],
            table=self._table,
            shape=self._shape,
            on_phase=on_phase,
        )

    def settle(self, link: Link) -> Settled:
        since = {link.key: link.number - 1 or 1}
        self.unsettled = link
        settled = self.chain.settle(read_links(self._spark, lambda: None, table=self._table, since=since)[link.key])
        self.unsettled = None
        return settled


def at(phase: Phase, action: Callable[[], object]) -> OnPhase:
    """Return a hook that calls `action` the first time that a landing reaches a phase."""
    is_done = False

    def on_phase(reached: Phase, landings: Sequence[Landing]) -> None:
        nonlocal is_done
        if reached is phase and not is_done:
            is_done = True
            action()

    return on_phase


@attrs.frozen
class Takeover:
    """An owner that becomes a zombie, and the owner that takes over from it, each with its own session."""

    table: Table
    shape: Shape
    sessions: list[Any]

    def zombie(self) -> Owner:
        return Owner(self.table, self.sessions[0], self.shape)

    def owner(self) -> Owner:
        return Owner(self.table, self.sessions[1], self.shape)

    def prove(self) -> None:
        """Check the chain and all rows: each row was written by the attempt that its link names."""
        end = self.owner().position
        links = prove_chain(self.table, self.sessions[1], KEY, end)
        prove_winners(links, prove_rows(self.table, self.sessions[1], offsets({KEY: end})))
        prove_audit(self.table, self.sessions[1])


def check_zombie_loses(both: Takeover, phase: Phase, zombies: int, owners: int) -> None:
    """Stop the zombie at a phase, and let the owner land the same link and another one: the zombie must lose.

    Args:
        both: the zombie and the owner.
        phase: the phase of the zombie's landing at which it stops.
        zombies: number of records in the zombie's link.
        owners: number of records in the owner's link.
    """
    zombie = both.zombie()
    end = zombie.position + owners + 1

    def take_over() -> None:
        owner = both.owner()
        assert owner.append(owners).outcome is Outcome.LANDED
        assert owner.append(1).outcome is Outcome.LANDED

    settled = zombie.append(zombies, at(phase, take_over))
    assert settled.outcome is Outcome.LOST, zombie.error
    assert zombie.position == end, "the zombie has read the owner's links"
    assert both.owner().append(2).outcome is Outcome.LANDED
    assert both.owner().position == end + 2


def check_zombie_wins(both: Takeover, phase: Phase, zombies: int, owners: int) -> None:
    """Let the zombie land a link while the owner is at a phase of the same link: the owner must adopt it.

    Args:
        both: the zombie and the owner.
        phase: the phase of the owner's landing at which the zombie wakes.
        zombies: number of records in the zombie's link.
        owners: number of records in the owner's link.
    """
    zombie, owner = both.zombie(), both.owner()
    end = zombie.position + zombies

    def wake() -> None:
        assert zombie.append(zombies).outcome is Outcome.LANDED

    settled = owner.append(owners, at(phase, wake))
    assert settled.outcome is Outcome.LOST, owner.error
    assert owner.position == end, "the owner has adopted the zombie's link"
    assert owner.append(2).outcome is Outcome.LANDED
    assert both.zombie().position == end + 2
