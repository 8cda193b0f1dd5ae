"""The cost of finding the newest link and compaction of a directory does not grow with their number."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sarameya_handlers.landing.directory.compaction_records import Compaction, Compactions
from sarameya_handlers.landing.directory.data_files import DataFiles
from sarameya_handlers.landing.directory.manifests import DataFile, Manifest
from sarameya_handlers.landing.directory.numbered import last_number
from sarameya_handlers.landing.links import ChainKey, Link, Origin
from sarameya_handlers.landing.stores.local import LocalStore
from tests.handlers.file_calls import FileCalls

KEY = ChainKey("warehouse", "orders", 3)
SHORT, LONG = 300, 3000


def landed(root: Path, count: int, *, hint: int | None) -> DataFiles:
    """Create a directory with `count` links, and a tenth as many compactions, without any fsync."""
    files = DataFiles(LocalStore(root))
    directory = root / "_sarameya" / "links" / KEY.sink / KEY.topic / str(KEY.partition)
    directory.mkdir(parents=True)
    for number in range(1, count + 1):
        (directory / f"{number:020d}.json").write_bytes(msgspec.json.encode(manifest(number)))
    if hint is not None:
        (directory / "head").write_text(str(hint))
    compactions = root / "_sarameya" / "compactions"
    compactions.mkdir()
    for number in range(1, count // 10 + 1):
        one = Compaction(number, f"c{number}", (f"part-{number}.parquet",), (DataFile(f"packed-{number}", 10, 1234),))
        (compactions / f"{number:020d}.json").write_bytes(msgspec.json.encode(one))
    return files


def manifest(number: int) -> Manifest:
    link = Link(
        key=KEY,
        number=number,
        from_offset=number * 10,
        to_offset=number * 10 + 10,
        attempt=f"a{number}",
        origin=Origin(group="billing"),
    )
    return Manifest(link, (DataFile(f"part-{number}.parquet", 10, 1234),))


@pytest.mark.parametrize("hint", [None, 1, 160], ids=["no hint", "a very old hint", "an old hint"])
def test_fault_61_parquet_start_reads_few_files_at_any_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hint: int | None
) -> None:
    short = landed(tmp_path / "short", SHORT, hint=hint)
    long = landed(tmp_path / "long", LONG, hint=hint)
    calls = FileCalls(monkeypatch)
    few = calls.of(short.publish_all)
    many = calls.of(long.publish_all)
    assert few < 100
    assert many <= few + 30, "ten times the length must cost only a few more calls"
    assert long.manifests.head(KEY) == manifest(LONG)
    last = long.compactions.last()
    assert last is not None
    assert last.number == LONG // 10


def test_fault_61_parquet_put_costs_the_same_at_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = landed(tmp_path / "short", SHORT, hint=SHORT)
    long = landed(tmp_path / "long", LONG, hint=LONG)
    calls = FileCalls(monkeypatch)
    few = calls.of(lambda: short.manifests.put(manifest(SHORT + 1)))
    assert calls.of(lambda: long.manifests.put(manifest(LONG + 1))) == few
    assert calls.of(lambda: short.manifests.head(KEY)) == calls.of(lambda: long.manifests.head(KEY))


def test_newest_compaction_is_none_without_compactions(tmp_path: Path) -> None:
    assert Compactions(LocalStore(tmp_path)).last() is None


@pytest.mark.parametrize("last", [0, 1, 2, 3, 15, 16, 17, 1000])
@pytest.mark.parametrize("known", [0, 1, 14, 999])
def test_last_number_is_found_from_any_known_number(last: int, known: int) -> None:
    calls: list[int] = []

    def is_there(number: int) -> bool:
        calls.append(number)
        return number <= last

    if known <= last:
        assert last_number(is_there, known) == last
        assert len(calls) <= 2 * (last - known + 1).bit_length() + 1
