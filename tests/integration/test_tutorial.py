"""docs/tutorial.md, followed as it is written: its files are created, its commands run, their output compared.

`...` stands for any text. A command that does not end by itself (`sarameya broker`, `sarameya run`) has its own
terminal; `^C` interrupts the one that was started last. The reader has installed a clone, and regards each warning as
an error. The tutorial runs once with the built-in broker, and once with a real one.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import distribution as at
from importlib.metadata import files
from pathlib import Path
from urllib.request import urlopen
from uuid import uuid4

import attrs
import pytest

from tests.distributions import installed_tree
from tests.docs.pages import code, page
from tests.integration.processes import marked
from tests.integration.real_kafka import RealKafka
from tests.integration.real_kafka.node import free_ports

pytestmark = pytest.mark.integration

SOURCE = Path(__file__).parents[2]
PATIENCE = 120.0
TEN_MINUTES = 600.0
"""The duration that the page promises. The commands take about twenty seconds, so a busy machine keeps it too."""
BUILT_IN = "sarameya broker "
ENDLESS = (BUILT_IN, "sarameya run ")
REAL_BROKER_ONLY = "sarameya topics create "
UNWANTED = re.compile("Traceback|Warning|ERROR|WARNING")


@attrs.define
class Walk:
    """A reader of the tutorial, with their terminals."""

    directory: Path
    environment: Mapping[str, str]
    left_out: str
    """The beginning of the command that a reader with such a broker skips."""
    terminals: list[tuple[subprocess.Popen[bytes], Path]] = attrs.field(factory=list)
    walked: list[str] = attrs.field(factory=list)

    def walk(self, text: str) -> None:
        began = time.monotonic()
        for block in code(text):
            if block.language == "console":
                self.console(block.text)
            elif block.language in ("python", "toml"):
                self.write(block.text)
        assert time.monotonic() - began < TEN_MINUTES

    def write(self, text: str) -> None:
        name = text.splitlines()[0].removeprefix("# ")
        (self.directory / name).write_text(text)
        self.walked.append(name)

    def console(self, text: str) -> None:
        for line, expected in re.findall(r"^(\$ .*|\^C)\n((?:(?!\$ |\^C).*\n)*)", text, re.MULTILINE):
            command = line.removeprefix("$ ")
            self.walked.append(command)
            if command.startswith(self.left_out):
                continue
            if command == "^C":
                self.interrupt(expected)
            elif command.startswith("curl "):
                assert matches(fetched(command.removeprefix("curl ")), expected)
            elif command.startswith(ENDLESS):
                self.start(command, expected)
            else:
                self.run(command, expected)

    def start(self, command: str, expected: str) -> None:
        output = self.directory / f"terminal{len(self.walked)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                self.arguments(command), cwd=self.directory, env=self.environment, stdout=file, stderr=file
            )
        self.terminals.append((process, output))
        wait_for(output.read_text, expected)
        assert process.poll() is None

    def run(self, command: str, expected: str) -> None:
        def printed() -> str:
            done = subprocess.run(
                self.arguments(command),
                cwd=self.directory,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert not UNWANTED.search(done.stderr), done.stderr
            # The command fails while the group does not exist yet. It is repeated, as a reader would do.
            assert command.startswith("sarameya groups") or done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        if command.startswith("sarameya groups"):
            wait_for(printed, expected)
        else:
            assert matches(printed(), expected)

    def interrupt(self, expected: str) -> None:
        if not self.terminals:  # the last ^C is for the built-in broker, which this reader has not started
            assert self.left_out == BUILT_IN
            return
        process, output = self.terminals.pop()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0, output.read_text()
        assert matches(output.read_text(), expected)
        # Retries are no problem: the broker may have just started.
        lines = [line for line in output.read_text().splitlines() if '"event": "Retrying"' not in line]
        assert not any(map(UNWANTED.search, lines)), lines

    def arguments(self, command: str) -> list[str]:
        program, *rest = shlex.split(command)
        return [str(self.environment["VIRTUAL_ENV"] / Path("bin") / program), *rest]


def matches(text: str, expected: str) -> bool:
    """Return whether the text has the expected lines in this order; `...` stands for any text."""
    # Brackets stand for themselves.
    pattern = re.sub(r"\[", "[[]", expected).replace("...", "*")
    return fnmatch.fnmatchcase(text, f"*{pattern.strip()}*")


def wait_for(text: Callable[[], str], expected: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not matches(output := text(), expected):
        assert time.monotonic() < deadline, output
        time.sleep(0.2)


def fetched(url: str) -> str:
    with urlopen(url) as answer:
        text: str = answer.read().decode()
        return text


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a virtual environment into which pip installs the clone.

    The dependencies of the clone, with the extras that the page names, are linked from the test's own environment.
    Nothing else is.
    """
    directory = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheels = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(directory), str(SOURCE)]
    subprocess.run([*pip, *wheels], check=True)
    environment = directory / "venv"
    venv.create(environment, symlinks=True)
    (wheel,) = directory.glob("sarameya-*.whl")
    install = ["--python", str(environment), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([*pip, *install], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    [extras] = re.findall(r"pip install '[^']+\[([\w,]+)\]'", page("tutorial"))
    for distribution in installed_tree("sarameya", set(extras.split(","))) - {"sarameya"}:
        borrow(distribution, packages)
    return environment


def borrow(distribution: str, packages: Path) -> None:
    """Make an installed distribution available in another environment, by links to its files."""
    for part in {path.parts[0] for path in files(distribution) or () if path.parts[0] not in ("..", "__pycache__")}:
        if not (packages / part).exists():  # a namespace package, of several distributions
            (packages / part).symlink_to(str(at(distribution).locate_file(part)))


def test_installation_has_exactly_the_documented_packages(installation: Path) -> None:
    def can_import(module: str) -> bool:
        python = [str(installation / "bin" / "python"), "-I", "-c", f"import {module}"]
        return subprocess.run(python, capture_output=True, check=False).returncode == 0

    assert can_import("sarameya, sarameya_handlers, sarameya_main, pyspark, rich, hypercorn")
    assert not any(map(can_import, ("pytest", "opentelemetry", "sphinx", "sqlalchemy", "confluent_kafka", "tests")))


@pytest.fixture
def environment(installation: Path) -> dict[str, str]:
    """Return the environment after the virtual environment is activated."""
    own = {
        "VIRTUAL_ENV": str(installation),
        "PATH": f"{installation / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "120",
        "PYTHONWARNINGS": "error",
        "TUTORIAL_MARK": uuid4().hex,
    }
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own


@pytest.fixture
def start_walk(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[[str], Walk]]:
    walks: list[Walk] = []

    def start(left_out: str) -> Walk:
        walks.append(Walk(tmp_path, environment, left_out))
        return walks[0]

    yield start
    for walk in walks:
        for process, _ in walk.terminals:
            process.kill()
            process.wait()
    assert marked(environment["TUTORIAL_MARK"]) == []


def tutorial(broker: int) -> str:
    """Return the page with other ports for the broker and the status page."""
    (page_port,) = free_ports(1)
    return page("tutorial").replace("9092", str(broker)).replace("8080", str(page_port))


def test_tutorial_works_with_the_built_in_broker(start_walk: Callable[[str], Walk]) -> None:
    (port,) = free_ports(1)
    walk = start_walk(REAL_BROKER_ONLY)
    walk.walk(tutorial(port))
    assert walk.terminals == []
    assert [step for step in walk.walked if step == "^C"] == ["^C"] * 3
    assert walk.walked[-3] == "python read.py"


def test_tutorial_works_with_a_real_broker(
    start_walk: Callable[[str], Walk], tmp_path_factory: pytest.TempPathFactory
) -> None:
    with RealKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        walk = start_walk(BUILT_IN)
        walk.walk(tutorial(int(kafka.bootstrap_servers[0].rpartition(":")[2])))
    assert walk.terminals == []
    assert walk.walked[-3] == "python read.py"


def test_missing_output_is_detected() -> None:
    assert matches("one\ntwo [1] three\nfour\n", "...two [1]...\nfour")
    assert not matches("one\ntwo\n", "two\nthree")
