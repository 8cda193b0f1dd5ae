from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path

import attrs
import pytest

from sarameya_handlers.landing.directory.manifests import DataFile, Manifest, Manifests
from sarameya_handlers.landing.errors import BrokenChainError
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.landing.stores.local import LocalStore

KEY = ChainKey("warehouse", "orders", 3)
RACES = 1000


def manifest(number: int, attempt: str = "a", key: ChainKey = KEY) -> Manifest:
    link = Link(
        key=key,
        number=number,
        from_offset=number * 10,
        to_offset=number * 10 + 10,
        attempt=f"{attempt}{number}",
        origin=Origin(group="billing"),
    )
    return Manifest(link, (DataFile(f"part-{attempt}-{number}.parquet", 10, 1234),))


def test_manifest_is_read_as_written(tmp_path: Path) -> None:
    manifests = Manifests(LocalStore(tmp_path))
    assert manifests.head(KEY) is None
    assert manifests.put(manifest(1))
    assert manifests.put(manifest(2))
    assert manifests.get(KEY, 1) == manifest(1)
    assert manifests.get(KEY, 3) is None
    assert list(manifests.since(KEY, 1)) == [manifest(1), manifest(2)]
    assert manifests.head(KEY) == manifest(2)


def test_number_in_use_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    manifests = Manifests(LocalStore(tmp_path))
    manifests.put(manifest(1, "a"))
    assert not manifests.put(manifest(1, "b"))
    assert manifests.head(KEY) == manifest(1, "a")
    [directory] = tmp_path.glob("_sarameya/links/*/*/*")
    assert [path.name for path in directory.iterdir()] == [f"{1:020d}.json"], "no temporary file is left"


@pytest.mark.parametrize("count", [15, 16, 17, 100])
def test_head_is_found_in_chains_of_any_length(tmp_path: Path, count: int) -> None:
    manifests = Manifests(LocalStore(tmp_path))
    for number in range(1, count + 1):
        manifests.put(manifest(number))
    assert Manifests(LocalStore(tmp_path)).head(KEY) == manifest(count)


@pytest.mark.parametrize("hint", ["", "no number", "999"])
def test_wrong_hint_still_finds_the_head(tmp_path: Path, hint: str) -> None:
    manifests = Manifests(LocalStore(tmp_path))
    for number in range(1, 41):
        manifests.put(manifest(number))
    [directory] = tmp_path.glob("_sarameya/links/*/*/*")
    (directory / "head").write_text(hint)
    assert manifests.head(KEY) == manifest(40)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "ü x", "%2E", "...", "plain"])
def test_chains_of_sinks_with_any_name_stay_apart(tmp_path: Path, name: str) -> None:
    manifests = Manifests(LocalStore(tmp_path))
    keys = [ChainKey(name, "orders", 0), ChainKey("other", "orders", 0), ChainKey(name, "orders.eu", 12)]
    for key in keys:
        manifests.put(manifest(1, key=key))
    assert sorted(manifests.chains()) == sorted(keys)
    for key in keys:
        assert manifests.head(key) == manifest(1, key=key)
    assert [path.name for path in (tmp_path / "_sarameya").iterdir()] == ["links"]


def test_invalid_manifest_raises_and_names_the_file(tmp_path: Path) -> None:
    manifests = Manifests(LocalStore(tmp_path))
    manifests.put(manifest(1))
    [path] = tmp_path.glob("_sarameya/links/*/*/*/*.json")
    path.write_text("{")
    with pytest.raises(BrokenChainError, match=f"{path.name} is no manifest"):
        manifests.head(KEY)


def test_manifest_with_the_name_of_another_raises(tmp_path: Path) -> None:
    manifests = Manifests(LocalStore(tmp_path))
    manifests.put(manifest(1))
    [path] = tmp_path.glob("_sarameya/links/*/*/*/*.json")
    path.rename(path.with_name(f"{2:020d}.json"))
    with pytest.raises(BrokenChainError, match="was it moved"):
        list(manifests.since(KEY, 2))


def _race(root: Path, name: str, go: object, results: object) -> None:
    manifests, won = Manifests(LocalStore(root)), []
    for number in range(1, RACES + 1):
        go.wait()  # type: ignore[attr-defined]
        if manifests.put(manifest(number, name)):
            won.append(number)
    results.put((name, won))  # type: ignore[attr-defined]


def test_race_for_a_link_has_exactly_one_winner(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    go, results = context.Barrier(2), context.Queue()
    racers = [context.Process(target=_race, args=(tmp_path, name, go, results)) for name in "ab"]
    for racer in racers:
        racer.start()
    won = dict(results.get(timeout=60) for _ in racers)
    for racer in racers:
        racer.join(60)
        assert racer.exitcode == 0
    results.close()
    results.join_thread()
    assert sorted(won["a"] + won["b"]) == list(range(1, RACES + 1))
    found = {m.link.number: m.link.attempt[0] for m in Manifests(LocalStore(tmp_path)).since(KEY, 1)}
    assert found == {**dict.fromkeys(won["a"], "a"), **dict.fromkeys(won["b"], "b")}
    assert min(len(won["a"]), len(won["b"])) > RACES // 100, "one racer won nearly all"


def test_manifest_is_synced_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor, fsync=os.fsync: (done.append("sync"), fsync(descriptor))[1])
    monkeypatch.setattr(os, "link", lambda *paths, link=os.link: (done.append("link"), link(*paths))[1])
    manifests = Manifests(LocalStore(tmp_path))
    manifests.put(manifest(1))
    done.clear()
    manifests.put(attrs.evolve(manifest(2)))
    assert done == ["sync", "link", "sync"]


def test_fault_51_missing_hint_does_not_fail_the_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    manifests = Manifests(LocalStore(tmp_path))
    monkeypatch.setattr(os, "replace", full)
    for number in range(1, 34):
        assert manifests.put(manifest(number))
    assert Manifests(LocalStore(tmp_path)).head(KEY) == manifest(33)


def test_link_of_another_process_is_synced_when_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process may have been killed between link(2) and the sync of the directory."""
    first, second = Manifests(LocalStore(tmp_path)), Manifests(LocalStore(tmp_path))
    first.put(manifest(1))
    done: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    [directory] = tmp_path.glob("_sarameya/links/*/*/*")
    for manifests in (first, second, second):
        manifests.sync(manifest(1).link)
    assert done == [str(directory)], "not synced once, by the process that did not write it"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO], ids=errno.errorcode.get)
def test_fault_52_unlistable_chains_raise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    manifests = Manifests(LocalStore(tmp_path))
    manifests.put(manifest(1))
    for call in ("listdir", "scandir"):
        monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=os.strerror(code)):
        list(manifests.chains())
