"""App files, environments and command lines of an older build keep their meaning."""

from __future__ import annotations

import json
import shlex

import pytest

from sarameya.service.cli.program import build_parser, main
from tests.compatibility.apps import APPS, CASES, Call, command_lines, effective, land_lines, printed_app
from tests.compatibility.renamed_names import DEFAULTS, KEYS


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*argv: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(argv)
        return (code, *capsys.readouterr())

    return call


@pytest.mark.parametrize("case", CASES)
def test_app_file_gives_the_same_configuration(case: str, call: Call) -> None:
    recorded = json.loads((APPS / "effective" / f"{case}.json").read_text(encoding="utf-8"))
    found, err = effective(call, case)

    for key, (value, origin) in recorded.items():
        name = KEYS.get(key, key)
        if origin == "default":
            assert found[name] == [DEFAULTS.get(key, value), "default"]
        else:
            assert found[name] == [value, origin]
            assert name == key or (key in err and name in err), "an old name must warn with the new name"
    added = found.keys() - {KEYS.get(key, key) for key in recorded}
    assert {found[key][1] for key in added} <= {"default"}, "a new option must have its default"


@pytest.mark.parametrize("words", command_lines(), ids=shlex.join)
def test_recorded_command_line_is_still_accepted(words: list[str]) -> None:
    try:
        args = build_parser(words).parse_args(words)
    except SystemExit as refused:
        pytest.fail(f"exit code {refused.code}")
    assert callable(args.run)


@pytest.mark.parametrize("number", range(len(land_lines())))
def test_land_command_line_gives_the_same_app(number: int, call: Call) -> None:
    recorded = json.loads((APPS / "effective" / "land.json").read_text(encoding="utf-8"))
    assert printed_app(call, land_lines()[number]) == recorded[number]
