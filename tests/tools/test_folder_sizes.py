from pathlib import Path

from tools.folder_sizes import large_folders


def test_folder_with_too_many_modules_is_named(tmp_path: Path) -> None:
    for folder, count in (("small", 2), ("large", 3)):
        (tmp_path / "runtime" / folder).mkdir(parents=True)
        for name in ("__init__", *"abc"[:count]):
            (tmp_path / "runtime" / folder / f"{name}.py").touch()
    assert large_folders(tmp_path, ("runtime",), limit=2) == {"runtime/large": 3}
