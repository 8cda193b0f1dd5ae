"""Install commands name packages that can be installed, however Sarameya itself was installed."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from sarameya import install_command

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_command_names_packages_and_never_sarameya_itself(extra: str) -> None:
    command = shlex.split(install_command(extra))
    assert command[:2] == ["pip", "install"]
    assert command[2:]
    assert not any(word.startswith("sarameya") for word in command)


def test_unknown_extra_is_named() -> None:
    assert install_command("no.such") == "install the extra `no.such` of Sarameya"


def test_remedies_name_published_packages_and_real_extras() -> None:
    for path in [*(ROOT / "runtime").rglob("*.py"), *(ROOT / "handlers").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text()
        assert "install 'sarameya[" not in text, path
        assert set(re.findall(r"install_command\(['\"](\w+)", text)) <= set(EXTRAS), path
