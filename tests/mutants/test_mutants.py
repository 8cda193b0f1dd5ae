"""The lists of mutants fit the code: each bug can be applied. `python -m tests.mutants` runs the mutants' tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.mutants import ROOT, Mutant, read_mutants

MUTANTS = read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fits_the_code(mutant: Mutant, tmp_path: Path) -> None:
    file = tmp_path / mutant.file
    file.parent.mkdir(parents=True)
    file.write_text((ROOT / mutant.file).read_text(encoding="utf-8"), encoding="utf-8")
    mutant.apply(tmp_path)
    compile(file.read_text(encoding="utf-8"), str(file), "exec")
    for test in mutant.tests:
        assert (ROOT / test.split("::")[0]).exists()


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names))


def test_mutant_without_its_old_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n", encoding="utf-8")
    for old in ("x = 1", "y"):
        with pytest.raises(ValueError, match="must have it once"):
            Mutant(name="n", about="", file="a.py", old=old, new="", tests=()).apply(tmp_path)
