"""The commits of a rewind, with which the next owner of a partition can start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from sarameya import CommittedOffset, Config, ConsumerGroup, GroupAdmin, TopicPartition
from sarameya.embedded import EmbeddedCluster
from sarameya.service.cli import main
from sarameya_handlers.audit.commands import arguments
from sarameya_handlers.audit.facts import GroupFacts, LogSpan
from sarameya_handlers.audit.rewind_plan import ChainRewind, Chains, plan_rewind
from sarameya_handlers.landing.chain_start import ChainStart, Log, choose_chain_start
from sarameya_handlers.landing.errors import RewoundTableError
from sarameya_handlers.landing.links import ChainKey, CommitNote, Link
from tests.group.kit import Recorder
from tests.handlers.audit.fake_table import ORIGIN, FakeTable, links_of
from tests.handlers.audit.kit import chains

KEY = ChainKey("warehouse", "orders", 0)
WHERE = KEY.topic_partition
LINKS = links_of(KEY, 4, 9, 12, start=2)
LOG = LogSpan(start=0, end=50)


def commit_of(link: Link, tail: int = 0) -> CommittedOffset:
    return CommittedOffset(link.to_offset + tail, CommitNote.of(link).to_metadata(), link.leader_epoch)


def plan(
    now: list[Link],
    then: list[Link],
    committed: CommittedOffset | None,
    *,
    log: LogSpan = LOG,
    first: Mapping[ChainKey, Link] | None = None,
    **others: CommittedOffset,
) -> list[ChainRewind]:
    commits = {WHERE: committed} if committed else {}
    commits |= {TopicPartition("orders", int(name[1:])): commit for name, commit in others.items()}
    heads_now, heads_then = ({KEY: links[-1]} if links else {} for links in (now, then))
    return plan_rewind(
        Chains(now=heads_now, then=heads_then, first=first or {}),
        {"billing": GroupFacts(committed=commits)},
        dict.fromkeys(commits | {WHERE: None}, log),
    )


@given(links=chains(KEY), data=st.data())
def test_start_accepts_the_commit_of_any_rewind(links: tuple[Link, ...], data: st.DataObject) -> None:
    """Holds for a table restored before or after the rewind, with any earlier commit of the group."""
    head = links[-1]
    then = data.draw(st.sampled_from(links))
    before = data.draw(
        st.sampled_from([None, CommittedOffset(0), *(commit_of(link, tail) for link in links for tail in (0, 3))])
    )
    log = Log(start=0, end=head.to_offset + 10)
    for now in (head, then):
        [move] = plan_rewind(
            Chains(now={KEY: now}, then={KEY: then}),
            {"billing": GroupFacts(committed={WHERE: before} if before else {})},
            {WHERE: LogSpan(start=log.start, end=log.end)},
        )
        assert move.problem == ""
        after = move.after or before
        assert after is not None
        began = choose_chain_start(KEY, then.origin, then, after, log)
        assert began.gap is None
        assert began.offset is not None
        assert then.to_offset <= began.offset <= max(then.to_offset, after.offset)
        if move.after is not None:
            assert began == ChainStart(then.to_offset)
        # Rewound before the table is restored: nothing is lost, nothing is landed twice.
        assert choose_chain_start(KEY, then.origin, head, after, log).offset in (head.to_offset, after.offset)


def test_restored_table_is_accepted_only_after_the_rewind() -> None:
    log = Log(start=0, end=50)
    with pytest.raises(RewoundTableError, match="rewind the group"):
        choose_chain_start(KEY, ORIGIN, LINKS[0], commit_of(LINKS[2]), log)
    [move] = plan(LINKS[:1], LINKS[:1], commit_of(LINKS[2]))
    assert (move.after, move.problem) == (commit_of(LINKS[0]), "")
    assert choose_chain_start(KEY, ORIGIN, LINKS[0], move.after, log) == ChainStart(4)


def test_matching_commit_is_kept_also_beyond_the_head() -> None:
    for tail in (0, 3):
        [move] = plan(LINKS, LINKS, commit_of(LINKS[2], tail))
        assert (move.after, move.remark) == (None, "committed already")


def test_chain_that_did_not_exist_goes_back_to_its_start() -> None:
    [move] = plan(LINKS, [], commit_of(LINKS[2]), first={KEY: LINKS[0]})
    assert move.after == CommittedOffset(2)
    assert move.remark == "the chain did not exist yet: back to its first offset"
    assert choose_chain_start(KEY, ORIGIN, None, move.after, Log(start=0, end=50)) == ChainStart(2)


@pytest.mark.parametrize("first", [{}, {KEY: LINKS[1]}], ids=["nothing", "not its first link"])
def test_chain_with_a_forgotten_start_goes_back_to_the_log_start(first: dict[ChainKey, Link]) -> None:
    [move] = plan(LINKS, [], commit_of(LINKS[2]), first=first, log=LogSpan(start=1, end=50))
    assert move.after == CommittedOffset(1)
    [move] = plan(LINKS, [], commit_of(LINKS[2]), first=first, log=LogSpan(problem="no leader"))
    assert (move.after, "no leader" in move.problem) == (None, True)


def test_chain_known_only_by_a_commit_is_rewound() -> None:
    """The table was restored to a version before the chain's first link, so it does not know the chain."""
    started_later = ChainKey("warehouse", "orders", 1)
    moves = plan(
        LINKS[:1],
        LINKS[:1],
        commit_of(LINKS[2]),
        p1=CommittedOffset(7, CommitNote("warehouse", 3, "x").to_metadata()),
        p2=CommittedOffset(7, CommitNote("other", 3, "x").to_metadata()),
        p3=CommittedOffset(7),
    )
    assert [(move.key, move.after) for move in moves] == [
        (KEY, commit_of(LINKS[0])),
        (started_later, CommittedOffset(0)),
    ]


def test_records_deleted_from_the_log_are_reported() -> None:
    [move] = plan(LINKS[:1], LINKS[:1], commit_of(LINKS[2]), log=LogSpan(start=6, end=50))
    assert move.after == commit_of(LINKS[0])
    assert "the records from 4 on were deleted before they landed" in move.problem
    [move] = plan(LINKS, [], commit_of(LINKS[2]), first={KEY: LINKS[0]}, log=LogSpan(start=6, end=50))
    assert move.problem == "the log starts at 6: offsets [2, 6) are deleted and cannot land again"


def test_group_with_unknown_commits_is_not_changed() -> None:
    [move] = plan_rewind(
        Chains(now={KEY: LINKS[2]}, then={KEY: LINKS[0]}), {"billing": GroupFacts(problem="not authorised")}, {}
    )
    assert (move.after, move.problem) == (None, "the group's committed offsets are unknown: not authorised")


def test_commit_of_another_sink_is_kept() -> None:
    old, new = LINKS[0], links_of(ChainKey("lake", "orders", 0), 12, 15, start=4)
    facts = {"billing": GroupFacts(committed={WHERE: commit_of(new[1])})}
    heads = {old.key: old, new[0].key: new[0]}
    moves = plan_rewind(Chains(now=heads, then=heads), facts, {WHERE: LOG})
    assert [(move.key.sink, move.after) for move in moves] == [("lake", commit_of(new[0])), ("warehouse", None)]
    assert moves[1].remark == "the group lands it as sink 'lake', too: left as is"


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> FakeTable:
    table = FakeTable(chains={KEY: LINKS[:]}, versions={"7": {KEY: LINKS[0]}, "0": {}})
    monkeypatch.setattr(arguments, "table_named", lambda name, options: table)
    return table


@attrs.frozen
class Stage:
    cluster: EmbeddedCluster
    capsys: pytest.CaptureFixture[str]

    async def rewind(self, *argv: str) -> tuple[int, Any, str]:
        self.capsys.readouterr()
        command = ["rewind", "fake", "--quiet", "--bootstrap", ",".join(self.cluster.bootstrap_servers), *argv]
        with trio.fail_after(30):
            code = await trio.to_thread.run_sync(main, command)
        out, err = self.capsys.readouterr()
        return code, json.loads(out) if "--json" in argv and out else out, err

    async def committed(self) -> Mapping[TopicPartition, CommittedOffset]:
        async with GroupAdmin(self.cluster.bootstrap_servers, Config(), lambda event: None) as admin:
            return await admin.committed("billing")

    async def commit(self, commit: CommittedOffset) -> None:
        async with GroupAdmin(self.cluster.bootstrap_servers, Config(), lambda event: None) as admin:
            assert await admin.commit("billing", {WHERE: commit}) == {WHERE: 0}


@pytest.fixture
async def stage(capsys: pytest.CaptureFixture[str]) -> Any:
    async with EmbeddedCluster({"orders": 1}) as cluster:
        cluster.produce_many("orders", 0, [(None, b"x")] * 20)
        yield Stage(cluster, capsys)


async def test_rewind_shows_executes_and_then_has_nothing_to_do(table: FakeTable, stage: Stage) -> None:
    await stage.commit(commit_of(LINKS[2]))
    code, out, err = await stage.rewind("--to-version", "7")
    assert (code, err) == (0, "")
    assert out.splitlines()[2:4] == [
        "SINK       TOPIC   PARTITION  GROUP    HEAD         TO-HEAD     COMMITTED    NEW-COMMIT  REMARK",
        "warehouse  orders          0  billing  12 (link 3)  4 (link 1)  12 (link 3)  4 (link 1)  -",
    ]
    assert out.splitlines()[-1] == "1 commit to be changed. Nothing is changed yet: add --execute to do it."
    assert await stage.committed() == {WHERE: commit_of(LINKS[2])}
    code, document, _ = await stage.rewind("--to-version", "7", "--execute", "--json")
    assert (code, document["executed"]) == (0, True)
    [chain] = document["chains"]
    assert chain["new"] == {"offset": 4, "metadata": CommitNote.of(LINKS[0]).to_metadata()}
    assert (chain["head"]["number"], chain["to_head"]["number"]) == (3, 1)
    assert await stage.committed() == {WHERE: commit_of(LINKS[0])}
    code, out, _ = await stage.rewind("--to-version", "7")
    assert (code, out.splitlines()[-1]) == (0, "Nothing has to be changed.")


async def test_rewind_before_the_chain_and_to_the_head(table: FakeTable, stage: Stage) -> None:
    await stage.commit(commit_of(LINKS[2]))
    assert (await stage.rewind("--to-version", "0", "--execute"))[0] == 0
    assert await stage.committed() == {WHERE: CommittedOffset(2)}
    assert (await stage.rewind("--to-head", "--execute"))[0] == 0
    assert await stage.committed() == {WHERE: commit_of(LINKS[2])}


async def test_active_group_is_shown_and_never_changed(table: FakeTable, stage: Stage) -> None:
    async with trio.open_nursery() as nursery:
        handler = Recorder()
        group = ConsumerGroup(stage.cluster.bootstrap_servers, "billing", Config(client_id="landing"))

        async def consume() -> None:
            async with group:
                await group.consume(["orders"], handler)

        nursery.start_soon(consume)
        await handler.until(lambda: bool(handler.sessions))
        before = await stage.committed()
        code, out, _ = await stage.rewind("--to-version", "7")
        assert code == 1
        assert "Group 'billing' is active: 1 member: landing-" in out
        code, out, err = await stage.rewind("--to-version", "7", "--execute")
        assert (code, out) == (1, "")
        assert "stop its members first, nothing was changed" in err
        assert await stage.committed() == before
        nursery.cancel_scope.cancel()


async def test_unknown_version_is_an_error(table: FakeTable, stage: Stage) -> None:
    code, out, err = await stage.rewind("--to-version", "8")
    assert (code, out, err) == (2, "", "sarameya: error: fake:orders has no version 8\n")


async def test_table_without_chains_is_an_error(table: FakeTable, stage: Stage) -> None:
    table.chains = {}
    code, _, err = await stage.rewind("--to-head")
    assert (code, "has no chain of links" in err) == (1, True)
