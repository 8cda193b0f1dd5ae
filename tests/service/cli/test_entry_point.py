from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SLOW_IMPORT = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "sarameya":
            print("importing", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Slow())
import sarameya_main
sarameya_main.main()
"""

IMPORTED_BEFORE = """
import _signal, sys
sys.path.insert(0, sys.argv[1])
before = []
class Watch:
    def find_spec(self, name, path=None, target=None):
        if _signal.getsignal(_signal.SIGINT) != _signal.SIG_DFL:
            before.append(name)
sys.meta_path.insert(0, Watch())
import sarameya_main
print(before, "typing" in sys.modules)
"""

ENDING = """
import os, signal, sys
import sarameya_main
sys.argv = ["sarameya", "--help"]
code = sarameya_main.main()
os.kill(os.getpid(), signal.SIGINT)
raise SystemExit(code)
"""

WRITES = """
import sys
import sarameya.service.cli
import sarameya_main
sarameya.service.cli.main = lambda: getattr(sys, sys.argv[1]).write("text") and 3
raise SystemExit(sarameya_main.main())
"""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_closed_output_does_not_change_the_exit_code(stream: str) -> None:
    read, write = os.pipe()
    os.close(read)
    outputs: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | {stream: write}
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen([sys.executable, "-c", WRITES, stream], env=buffered, **outputs) as process:
        os.close(write)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output or b"", errors or b"") == (3, b"", b"")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_after_the_command_changes_nothing(signum: signal.Signals) -> None:
    ending = ENDING.replace("signal.SIGINT", f"signal.{signum.name}")
    done = subprocess.run([sys.executable, "-c", ending], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_during_imports_shows_no_traceback() -> None:
    command = [sys.executable, "-c", SLOW_IMPORT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            assert process.stdout.readline() == "importing\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == -signal.SIGINT
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_ctrl_c_is_handled_before_any_import() -> None:
    spec = importlib.util.find_spec("sarameya_main")
    assert spec is not None
    assert spec.origin is not None
    # -S: the `site` of an environment may import further modules.
    command = [sys.executable, "-S", "-c", IMPORTED_BEFORE, str(Path(spec.origin).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("['sarameya_main', '__future__'] False\n", "")


APP = """
bootstrap_servers = ["here:9092"]
group = "g"
topics = ["orders"]
handler.name = "print"
[config]
security_protocol = "SASL_SSL"
sasl_mechanism = "OAUTHBEARER"
sasl_token = "beside_the_caller:token"
"""
SCRIPT = "import sys, sarameya_main; raise SystemExit(sarameya_main.main())"
WITHOUT_A_FILE = [
    *("land", "--bootstrap", "here:9092", "--group", "g", "--topic", "orders", "--to", "parquet:landing"),
    *("--set", "transform=beside_the_caller:transform", "--print-app"),
]


@pytest.mark.parametrize("argv", [["config", "show", "app.toml", "--json"], WITHOUT_A_FILE])
def test_script_finds_modules_in_the_current_directory(tmp_path: Path, argv: list[str]) -> None:
    (tmp_path / "app.toml").write_text(APP)
    (tmp_path / "beside_the_caller.py").write_text("def token(): ...\n\n\ndef transform(frame): return frame\n")
    # -P: as for an installed script, the current directory is not on the import path.
    command = [sys.executable, "-P", "-c", SCRIPT, *argv]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "sasl_token" in done.stdout or "beside_the_caller:transform" in done.stdout


@pytest.mark.parametrize("argv", [["config", "docs"], ["config", "show", "app.toml"], ["completion", "bash"]])
def test_output_closed_by_its_reader_is_no_error(argv: list[str], tmp_path: Path) -> None:
    (tmp_path / "app.toml").write_text(
        'bootstrap_servers = ["a:1"]\ngroup = "g"\ntopics = ["t"]\nhandler.name = "print"\n'
    )
    command = [sys.executable, "-m", "sarameya.service", *argv]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # before the program prints
        assert (process.stderr.read(), process.wait(30)) == ("", 0)
