"""Publishing of staged links, statement by statement. Spark is faked and records its statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from sarameya_handlers.landing.errors import BrokenChainError, ForgottenChainError
from sarameya_handlers.landing.links import Link
from sarameya_handlers.spark.errors import LandingError
from sarameya_handlers.spark.iceberg.catalog import TableName
from sarameya_handlers.spark.iceberg.marks import ChainMark
from sarameya_handlers.spark.iceberg.table_state import TableState
from sarameya_handlers.spark.iceberg.write_audit_publish import publish
from sarameya_handlers.spark.tables.staging import StagedFile
from sarameya_handlers.spark.tables.table import Landing
from tests.handlers.spark.iceberg.kit import KEY, OTHER, FakeMetadata, link

NAME = TableName.of("ice.db.orders")
TERM = "ab12"
ALTER = "ALTER TABLE `ice`.`db`.`orders`"


@attrs.define
class FakeSpark:
    """A session that records its statements. A statement that contains `refuses` fails."""

    executed: list[str] = attrs.field(factory=list)
    refuses: str = "\0"

    def sql(self, statement: str) -> FakeSpark:
        self.executed.append(statement)
        if self.refuses in statement:
            raise RuntimeError("Duplicate request to cherry pick wap id")
        return self

    def collect(self) -> list[Any]:
        return []

    @property
    def picked(self) -> list[int]:
        return [int(one.rpartition(" ")[2].rstrip(")")) for one in self.executed if "cherrypick" in one]


@attrs.define
class Table:
    """The metadata and properties of a table, and a session."""

    metadata: FakeMetadata = attrs.field(factory=FakeMetadata)
    properties: dict[str, str] = attrs.field(factory=dict)
    spark: FakeSpark = attrs.field(factory=FakeSpark)

    def publish(self, *links: Link, plain: bool = True, records: int = 10) -> list[Exception]:
        landings = [Landing(link=one, staged=StagedFile(Path("staged")), records=records) for one in links]
        state = TableState(self.properties, self.metadata.history())
        spark: Any = self.spark
        return publish(spark, NAME, state, landings, {KEY: TERM, OTHER: TERM}, plain=plain)

    def mark(self, *marks: ChainMark) -> None:
        self.properties |= {mark.name: mark.value for mark in marks}


@pytest.fixture
def table() -> Table:
    return Table()


def test_next_link_is_published(table: Table) -> None:
    table.metadata.land(link(1))
    table.mark(ChainMark.begun(KEY, 1, TERM))
    mine = link(2)
    staged = table.metadata.stage(mine)
    assert table.publish(mine) == []
    assert table.spark.executed == [
        f"CALL `ice`.system.cherrypick_snapshot(table => '`db`.`orders`', snapshot_id => {staged})"
    ]


def test_chain_starts_are_marked_before_first_links(table: Table) -> None:
    firsts = [link(1), link(1, key=OTHER)]
    staged = [table.metadata.stage(one) for one in firsts]
    assert table.publish(*firsts) == []
    assert table.spark.executed[0] == (
        f"{ALTER} SET TBLPROPERTIES "
        f"('{ChainMark.begun(KEY, 1, TERM).name}' = 'begun {TERM}', "
        f"'{ChainMark.begun(OTHER, 1, TERM).name}' = 'begun {TERM}')"
    )
    assert table.spark.picked == staged


def test_restarted_chain_is_marked_again(table: Table) -> None:
    head, mine = link(1), link(2)
    table.metadata.land(head)
    table.mark(ChainMark.begun(KEY, 1, TERM), ChainMark.rest(head))
    table.metadata.stage(mine)
    table.publish(mine)
    begun, rest = ChainMark.begun(KEY, 1, TERM), ChainMark.rest(head)
    assert table.spark.executed[:2] == [
        f"{ALTER} SET TBLPROPERTIES ('{ChainMark.begun(KEY, 2, TERM).name}' = 'begun {TERM}')",
        f"{ALTER} UNSET TBLPROPERTIES IF EXISTS ('{begun.name}', '{rest.name}')",
    ]


def test_chain_started_by_another_owner_is_marked_again(table: Table) -> None:
    """The other owner may be about to store the chain's end."""
    table.metadata.land(link(1))
    table.mark(ChainMark.begun(KEY, 1, "another"))
    mine = link(2)
    table.metadata.stage(mine)
    table.publish(mine)
    assert ChainMark.begun(KEY, 2, TERM).name in table.spark.executed[0]


def test_taken_link_is_skipped_without_an_error(table: Table) -> None:
    table.metadata.land(link(1))
    late = link(1)
    table.metadata.stage(late)
    assert table.publish(late) == []
    assert table.spark.executed == []


def test_link_without_a_predecessor_is_refused(table: Table) -> None:
    table.metadata.land(link(1))
    ahead = link(3)
    table.metadata.stage(ahead)
    (failure,) = table.publish(ahead)
    assert isinstance(failure, LandingError)
    assert "has no link 2, only 1" in str(failure)
    assert table.spark.executed == []


def test_link_of_a_forgotten_chain_is_refused(table: Table) -> None:
    """The link's number may have been used."""
    first = table.metadata.land(link(1))
    table.metadata.commit()
    table.metadata.expire([first])
    table.mark(ChainMark.begun(KEY, 1, TERM))
    again = link(1)
    table.metadata.stage(again)
    (failure,) = table.publish(again)
    assert isinstance(failure, ForgottenChainError)
    assert table.spark.executed == []


def test_link_after_a_stored_head_is_published(table: Table) -> None:
    head, mine = link(4), link(5)
    first = table.metadata.land(head)
    table.metadata.commit()
    table.metadata.expire([first])
    table.mark(ChainMark.rest(head))
    staged = table.metadata.stage(mine)
    assert table.publish(mine) == []
    assert table.spark.picked == [staged]


def test_expired_staged_link_is_reported(table: Table) -> None:
    (failure,) = table.publish(link(1))
    assert "no longer in the table" in str(failure)


def test_row_count_of_plain_records_is_checked(table: Table) -> None:
    mine = link(1)
    staged = table.metadata.stage(mine, rows=9)
    (failure,) = table.publish(mine)
    assert "9 rows were written of 10 records" in str(failure)
    assert table.publish(mine, plain=False) == []
    assert table.spark.picked == [staged]


def test_broken_chain_does_not_block_others(table: Table) -> None:
    mine, others = link(1), link(1, key=OTHER)
    table.metadata.pick(table.metadata.stage(link(2), wap="sarameya/sink/orders/0/1"))
    table.metadata.stage(mine)
    staged = table.metadata.stage(others)
    assert [type(failure) for failure in table.publish(mine, others)] == [BrokenChainError]
    assert table.spark.picked == [staged]


def test_link_refused_by_iceberg_does_not_block_others(table: Table) -> None:
    mine, others = link(1), link(1, key=OTHER)
    refused, staged = table.metadata.stage(mine), table.metadata.stage(others)
    table.spark.refuses = f"snapshot_id => {refused}"
    (failure,) = table.publish(mine, others)
    assert "Duplicate request" in str(failure)
    assert table.spark.picked == [refused, staged]
