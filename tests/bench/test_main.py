"""Benchmarks that `python -m bench` runs, and their options."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import ModuleType

import pytest

import bench.__main__ as command


class Bench(ModuleType):
    """Records the options of each run."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(name, f"{name} measures.\n\nMore.")
        self.code = code
        self.runs: list[argparse.Namespace] = []

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(f"--{self.__name__}", type=int, default=7)
        parser.add_argument("--json", type=Path)

    def main(self, options: argparse.Namespace) -> int:
        self.runs.append(options)
        return self.code


@pytest.fixture
def benches(monkeypatch: pytest.MonkeyPatch) -> dict[str, Bench]:
    made = {"reads": Bench("reads", 1), "waits-long": Bench("waits", 0)}
    modules = {f"bench.{name.replace('-', '_')}": bench for name, bench in made.items()}
    monkeypatch.setattr(command, "BENCHES", tuple(made))
    monkeypatch.setattr(command.importlib, "import_module", modules.__getitem__)
    return made


def test_named_bench_is_run_with_its_own_options(benches: dict[str, Bench]) -> None:
    assert command.main(["waits-long", "--waits", "3"]) == 0

    assert [run.waits for run in benches["waits-long"].runs] == [3]
    assert benches["reads"].runs == []


def test_without_a_name_all_benches_run_despite_failures(benches: dict[str, Bench]) -> None:
    assert command.main([]) == 1

    assert [run.reads for run in benches["reads"].runs] == [7]
    assert [run.waits for run in benches["waits-long"].runs] == [7]


def test_each_bench_writes_its_own_document_of_results(benches: dict[str, Bench], tmp_path: Path) -> None:
    results = tmp_path / "made" / "results"
    command.main(["--results", str(results)])

    assert {name: bench.runs[0].json for name, bench in benches.items()} == {
        "reads": results / "reads.json",
        "waits-long": results / "waits-long.json",
    }
    assert results.is_dir()


def test_option_json_overrides_the_directory_of_results(benches: dict[str, Bench], tmp_path: Path) -> None:
    command.main(["--results", str(tmp_path), "reads", "--json", "mine.json"])

    assert benches["reads"].runs[0].json == Path("mine.json")


@pytest.mark.parametrize("arguments", [["nothing"], ["waits-long", "--reads", "3"]])
def test_unknown_bench_and_option_of_another_are_refused(benches: dict[str, Bench], arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(arguments)


def test_every_bench_has_a_description_and_options() -> None:
    parser = command.argument_parser(command.load_benches())

    assert [parser.parse_args([name]).bench for name in command.BENCHES] == list(command.BENCHES)
