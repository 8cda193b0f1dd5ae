"""Chains in made-up histories: the links that count, the commits that a search reads, the effect of a RESTORE."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sarameya_handlers.landing.errors import BrokenChainError, RewoundTableError
from sarameya_handlers.landing.links import ChainKey
from sarameya_handlers.spark.delta.history.chains import LAST, ChainHistory, live, search, search_all
from sarameya_handlers.spark.delta.history.commits import DeltaCommit
from tests.handlers.spark.delta.kit import KEY, OTHER, History


def numbers(found: ChainHistory) -> list[int]:
    return [link.number for link in found.links]


def commits_read(history: History, since: dict[ChainKey, int]) -> int:
    """Return the number of commits that a search reads."""
    taken = 0

    def counted() -> Iterator[DeltaCommit]:
        nonlocal taken
        for commit in history.commits:
            taken += 1
            yield commit

    search(counted(), since)
    return taken


@pytest.fixture
def history() -> History:
    """Versions 0 to 8: links of both chains in turn, and commits of another writer."""
    made = History()
    made.other()
    for number in (1, 2, 3):
        made.landed(number)
        made.landed(number, OTHER)
        if number < 3:
            made.other()
    return made


def test_head_is_the_newest_link(history: History) -> None:
    found = search(history.commits, {KEY: LAST, OTHER: LAST})
    assert [numbers(found[KEY]), numbers(found[OTHER])] == [[3], [3]]
    assert found[KEY].seen == history.newest == 8


def test_links_start_at_the_requested_number(history: History) -> None:
    assert numbers(search(history.commits, {KEY: 2})[KEY]) == [2, 3]
    assert numbers(search(history.commits, {KEY: 1})[KEY]) == [1, 2, 3]


def test_search_reads_no_more_commits_than_needed(history: History) -> None:
    assert (
        commits_read(history, {KEY: LAST}) == 3
    )  # the newest commit, the link, and the last commit that its writer has seen
    assert commits_read(history, {KEY: 1}) == len(history.commits)
    assert commits_read(history, {ChainKey("sink", "orders", 2): LAST}) == len(history.commits)


def test_chain_without_links_is_known_to_be_new(history: History) -> None:
    found = search(history.commits, {ChainKey("sink", "orders", 2): LAST})
    (none,) = found.values()
    assert none.links == []
    assert none.is_whole
    assert search([], {KEY: LAST})[KEY] == ChainHistory(links=[], seen=-1, term=0, is_whole=True)


def test_cut_history_does_not_prove_a_new_chain(history: History) -> None:
    del history.commits[-2:]
    found = search(history.commits, {KEY: 1, ChainKey("sink", "orders", 2): LAST})
    assert [chain.is_whole for chain in found.values()] == [False, False]
    assert numbers(found[KEY]) == [2, 3]


def test_restore_undoes_later_links(history: History) -> None:
    history.restored(2)  # link 1 of both
    found = search(history.commits, {KEY: 1, OTHER: 1})
    assert [numbers(found[KEY]), numbers(found[OTHER])] == [[1], [1]]
    assert [commit.version for commit in live(history.commits)] == [9, 2, 1, 0]


def test_chain_continues_after_a_restore_in_a_new_term(history: History) -> None:
    history.restored(2)
    assert search(history.commits, {KEY: LAST})[KEY].term == 9
    history.landed(2, term=9)
    history.landed(3, term=9)
    found = search(history.commits, {KEY: 1})
    assert numbers(found[KEY]) == [1, 2, 3]
    assert found[KEY].term == 9
    assert search(history.commits, {OTHER: LAST})[OTHER].term == 9


def test_fully_undone_chain_starts_in_a_new_term(history: History) -> None:
    history.restored(0)
    found = search(history.commits, {KEY: LAST})[KEY]
    assert (found.links, found.term, found.is_whole) == ([], 9, True)


def test_restores_of_restores_are_followed(history: History) -> None:
    history.restored(2)
    history.landed(2, term=9)
    history.restored(8)  # all three again
    found = search(history.commits, {KEY: 1})[KEY]
    assert (numbers(found), found.term) == ([1, 2, 3], 11)
    history.restored(10)  # link 1, and the other link 2
    assert numbers(search(history.commits, {KEY: 1})[KEY]) == [1, 2]


def test_link_unaware_of_a_restore_breaks_the_chain(history: History) -> None:
    history.restored(2)
    history.landed(4, seen=8)
    for since in (LAST, 1):
        with pytest.raises(BrokenChainError, match="by a member that did not know"):
            search(history.commits, {KEY: since})
    with pytest.raises(BrokenChainError):
        search_all(history.commits)
    assert numbers(search(history.commits, {OTHER: 1})[OTHER]) == [1]


def test_second_restore_repairs_the_chain(history: History) -> None:
    history.restored(2)
    history.landed(4, seen=8)
    history.restored(2)
    found = search(history.commits, {KEY: 1})[KEY]
    assert (numbers(found), found.term) == ([1], 11)


def test_restore_to_a_time_is_refused(history: History) -> None:
    history.restored(-1)
    with pytest.raises(RewoundTableError, match="TO VERSION AS OF"):
        search(history.commits, {KEY: LAST})


def test_search_without_keys_finds_every_chain(history: History) -> None:
    found = search_all(history.commits)
    assert {key: numbers(chain) for key, chain in found.items()} == {KEY: [1, 2, 3], OTHER: [1, 2, 3]}
    history.restored(1)
    assert {key: numbers(chain) for key, chain in search_all(history.commits).items()} == {KEY: [1]}


@given(st.lists(st.sampled_from(["land", "land other", "other", "restore"]), max_size=30), st.randoms())
def test_chains_match_a_model_of_versions(actions: list[str], dice: object) -> None:
    """The model keeps the links of each version; a RESTORE returns to one. Every writer knows the history."""
    history, states = History(), [dict[ChainKey, list[int]]()]
    history.other()
    for action in actions:
        now = {key: list(links) for key, links in states[-1].items()}
        if action == "restore":
            version = dice.randrange(history.newest + 1)  # type: ignore[attr-defined]
            history.restored(version)
            now = states[version]
        elif action == "other":
            history.other()
        else:
            key = KEY if action == "land" else OTHER
            found = search(history.commits, {key: LAST})[key]
            assert numbers(found) == now.get(key, [])[-1:]
            number = found.links[-1].number + 1 if found.links else 1
            history.landed(number, key, seen=found.seen, term=found.term)
            now.setdefault(key, []).append(number)
        states.append(now)
    wanted = {key: links for key, links in states[-1].items() if links}
    assert {key: numbers(found) for key, found in search_all(history.commits).items()} == wanted
    for key, links in wanted.items():
        assert numbers(search(history.commits, {key: 1})[key]) == links
