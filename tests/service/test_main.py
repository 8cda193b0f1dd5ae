from __future__ import annotations

import signal
import subprocess
import sys

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

ENDING = """
import os, signal, sys
import sarameya_main
sys.argv = ["sarameya", "--help"]
code = sarameya_main.main()
os.kill(os.getpid(), signal.SIGINT)
raise SystemExit(code)
"""


def test_ctrl_c_during_the_imports_ends_the_program_without_a_traceback() -> None:
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


def test_ctrl_c_when_all_is_done_changes_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
