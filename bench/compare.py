"""Two commits in one run: `python -m bench compare A B`, each with the benches of this checkout.

The product of each commit is taken out of git into a temporary directory. Each bench runs with one of them and then
with the other, round after round, and the order alternates, so that a disturbance of the machine affects both. Only our
own contenders run. Both use the packages that are installed here.

A ratio is B / A of one figure: of a rate, above 1 is faster; of a time, above 1 is slower.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from types import ModuleType

import attrs

from bench.common.documents import of_json
from bench.common.machine import load
from bench.common.options import positive
from bench.common.presenting import present, show_progress
from bench.common.results import Result
from bench.common.spread import ratio
from bench.common.tables import Document, Ratio, Row, Table
from tests.integration.peers.running import ROOT

DEFAULT = ("consume", "latency", "rebalance")
ROUNDS = 5

_PRODUCT = ("runtime", "handlers")
_OURS = "sarameya"

RunBench = Callable[[str, str], Document]
"""Runs the bench (second) with the product of a commit (first), for one round."""


class CommitError(Exception):
    """A commit cannot be compared; the text says why."""


def add_options(parser: argparse.ArgumentParser, benches: Iterable[str]) -> None:
    """Add the options of `compare`."""
    parser.add_argument("first", metavar="A", help="a commit, branch or tag")
    parser.add_argument("second", metavar="B", help="the commit that is compared with it")
    parser.add_argument(
        "--benches", nargs="+", default=list(DEFAULT), choices=list(benches), metavar="NAME", help=f"default: {DEFAULT}"
    )
    parser.add_argument("--rounds", type=positive, default=ROUNDS, metavar="N", help=f"default: {ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="the quick form of each bench")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE, for programs")


def main(options: argparse.Namespace, benches: Mapping[str, ModuleType]) -> int:
    """Measure and print; 1 where a contender has failed.

    Raises:
        CommitError: git does not know a commit, or a bench did not run with its product.
    """
    a, b = options.first, options.second
    about = f"{a} and {b}, {', '.join(options.benches)}, {options.rounds} round(s)"
    with tempfile.TemporaryDirectory(prefix="sarameya-compare-") as directory:
        products = {commit: Path(directory) / str(number) for number, commit in enumerate((a, b))}
        for commit, product in products.items():
            take_out(commit, product)

        def run(commit: str, bench: str) -> Document:
            return run_bench(bench, arguments_of(bench, benches[bench], quick=options.quick), products[commit])

        return present("compare", about, measure((a, b), options.benches, options.rounds, run), options.json)


def measure(commits: tuple[str, str], benches: Sequence[str], rounds: int, run: RunBench) -> Iterator[Table]:
    """Yield the tables of each bench, once all its rounds are done."""
    for bench in benches:
        documents: dict[str, list[Document]] = {commit: [] for commit in commits}
        for number in range(rounds):
            for commit in commits if number % 2 == 0 else commits[::-1]:
                show_progress(f"{bench}: round {number + 1} of {rounds}: {commit}")
                documents[commit].append(run(commit, bench))
        yield from compared(documents, commits)


def compared(documents: Mapping[str, Sequence[Document]], commits: tuple[str, str]) -> Iterator[Table]:
    """Yield each table of a bench, with our rows of both commits.

    Args:
        documents: Results of one bench: by commit, one for each round.
        commits: The two commits; ratios are those of the second to the first.
    """
    first = documents[commits[0]][0]
    for number, table in enumerate(first.tables):
        names = [row.name for row in table.rows if row.is_ours]
        results = {
            (name, commit): _result(f"{name} {commit}", name, [each.tables[number] for each in documents[commit]])
            for name in names
            for commit in commits
        }
        yield Table(
            title=f"{first.bench}: {table.title}",
            columns=table.columns,
            rows=[Row.of(result, table.columns) for result in results.values()],
            ratios=[
                ratio
                for name in names
                for ratio in _ratios(results[name, commits[1]], results[name, commits[0]], table)
            ],
            ratio_means="B has more",
            load=load(),
        )


def _result(title: str, name: str, tables: Iterable[Table]) -> Result:
    result = Result(title, is_ours=True)
    for table in tables:
        row = next((row for row in table.rows if row.name == name), None)
        if row is None or not row.figures:
            result.add("; ".join(row.failures) if row is not None else "no row")
        else:
            result.add({key: spread.median for key, spread in row.figures.items()})
    return result


def _ratios(ours: Result, theirs: Result, table: Table) -> Iterator[Ratio]:
    if ours.counts and theirs.counts:
        for column in table.columns:
            if all(theirs.numbers(column.key)):
                spread = ratio(ours.numbers(column.key), theirs.numbers(column.key))
                yield Ratio(ours.name, theirs.name, column.key, spread)


def arguments_of(bench: str, module: ModuleType, *, quick: bool) -> list[str]:
    """Return the command line of one round of a bench, with our own contenders where it has others."""
    parser = argparse.ArgumentParser()
    module.add_options(parser)
    contenders = getattr(parser.parse_args([]), "contenders", [])
    ours = [name for name in contenders if name.startswith(_OURS)]
    return [bench, "--repeats", "1", *(["--quick"] if quick else []), *(["--contenders", *ours] if ours else [])]


def take_out(commit: str, directory: Path) -> None:
    """Write the product of a commit into a new directory. Raises CommitError."""
    done = subprocess.run(["git", "archive", commit, *_PRODUCT], cwd=ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        raise CommitError(f"{commit}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(directory, filter="data")


def run_bench(bench: str, arguments: Sequence[str], product: Path) -> Document:
    """Run one round of a bench with the product in this directory. Raises CommitError."""
    path = os.pathsep.join(str(product / name) for name in _PRODUCT)
    environment = {**os.environ, "PYTHONPATH": path}
    found = subprocess.run(
        [sys.executable, "-c", "import sarameya; print(sarameya.__file__)"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if not found.stdout.startswith(str(product)):
        raise CommitError(f"{bench} would run with {found.stdout.strip() or found.stderr.strip()}, not with {product}")
    results = product / f"{bench}.json"
    results.unlink(missing_ok=True)  # of the round before
    command = [sys.executable, "-m", "bench", *arguments, "--json", str(results)]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)
    try:
        return attrs.evolve(of_json(results.read_text(encoding="utf-8")), bench=bench)
    except (OSError, ValueError) as error:
        raise CommitError(f"{bench} ended with {done.returncode} without a result: {error}") from error
