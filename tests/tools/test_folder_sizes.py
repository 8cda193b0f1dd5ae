from pathlib import Path

from tools.rooms import large_rooms


def test_folder_with_too_many_modules_is_named(tmp_path: Path) -> None:
    for room, count in (("small", 2), ("large", 3)):
        (tmp_path / "runtime" / room).mkdir(parents=True)
        for name in ("__init__", *"abc"[:count]):
            (tmp_path / "runtime" / room / f"{name}.py").touch()
    assert large_rooms(tmp_path, ("runtime",), limit=2) == {"runtime/large": 3}
