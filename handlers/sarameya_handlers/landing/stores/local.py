"""A directory of a local file system, or of a mounted one with the same semantics of `link(2)`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR

from sarameya_handlers.landing import files
from sarameya_handlers.landing.stores.store import Store, Stored
from sarameya_handlers.landing.stores.usage import Usage


class LocalStore(Store):
    """Files below an absolute path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.usage = Usage()

    def __repr__(self) -> str:
        return f"LocalStore({str(self.root)!r})"

    @property
    def place(self) -> str:
        return str(self.root)

    def path(self, name: str) -> Path:
        """Return the path of a file."""
        return self.root / name

    def spark_url(self, name: str) -> str:
        # With a scheme, since Spark's default file system may be another. Hadoop decodes no %-escapes in it.
        return f"file://{self.path(name)}"

    def prepare(self, directories: Iterable[str]) -> None:
        for directory in directories:
            self.path(directory).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.root, prefix="_"):
            pass

    def gives_names_once(self, directory: str) -> bool:
        return files.names_are_given_once(self.path(directory))

    def put_if_absent(self, name: str, content: bytes, check: Callable[[], object] = lambda: None) -> bool:
        return files.put_if_absent(self.path(name), content, check)

    def put_over(self, name: str, content: bytes, *, durably: bool = False) -> None:
        files.put_over(self.path(name), content, durably=durably)

    def take(self, file: Path, name: str) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        file.rename(path)

    def copy_in(self, file: Path, name: str) -> None:
        self.path(name).hardlink_to(file)

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path

    def get(self, name: str) -> bytes | None:
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            return None

    def is_there(self, name: str) -> bool:
        return files.is_there(self.path(name))

    def has_files(self, directory: str) -> bool:
        return files.is_there(self.path(directory))

    def open(self, name: str) -> str:
        return str(self.path(name))

    def names(self, directory: str, enters: Callable[[str], bool] = lambda name: True) -> Iterator[str]:
        def fail(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):  # another process removes it
                raise error

        # By default os.walk skips a directory that cannot be listed.
        for parent, directories, names in os.walk(self.path(directory), onerror=fail):
            directories[:] = filter(enters, directories)
            below = Path(parent).relative_to(self.root)
            for name in names:
                yield str(below / name)

    def entries(self, directory: str) -> list[str]:
        return [path.name for path in files.listed(self.path(directory))]

    def measure(self, name: str) -> Stored | None:
        path = self.path(name)
        try:
            inside = [file.stat() for file in (path, *path.rglob("*"))]
        except FileNotFoundError:
            return None
        size = sum(status.st_size for status in inside if not S_ISDIR(status.st_mode))
        return Stored(size, max(status.st_mtime for status in inside))

    def unfinished(self, directory: str) -> list[str]:
        found = files.listed(self.path(directory))
        return [str(path.relative_to(self.root)) for path in found if path.name.startswith(files.TEMPORARY)]

    def sync_files(self, directory: str, names: Iterable[str]) -> None:
        top = self.path(directory).parent if directory else self.root
        parents: set[Path] = set()
        for name in names:
            path = self.path(name)
            files.sync(path)
            parents |= {parent for parent in path.parents if parent == top or top in parent.parents}
        for parent in sorted(parents, reverse=True):
            files.sync(parent)

    def sync_names(self, directory: str) -> None:
        files.sync(self.path(directory))

    def move(self, moves: Sequence[tuple[str, str]]) -> None:
        pending = [(self.path(name), self.path(to)) for name, to in moves if self.is_there(name)]
        # Directories first: a compaction removes files before it adds others, and nothing should delay it in between.
        for directory in sorted({to.parent for _, to in pending}):
            files.make_directory(directory)
        for file, to in pending:
            with suppress(FileNotFoundError):  # another process has just moved it
                file.rename(to)
        for directory in sorted({self.path(to).parent for _, to in moves}):
            with suppress(FileNotFoundError):  # the replaced files are swept already
                files.sync(directory)  # also where another process moved the files: it may have died before its sync

    def rename(self, directory: str, to: str) -> None:
        self.path(directory).rename(self.path(to))

    def tidy(self, directory: str) -> None:
        if not any(name.endswith(".parquet") for name in self.names(directory)):
            shutil.rmtree(self.path(directory), ignore_errors=True)

    def remove(self, name: str) -> None:
        path = self.path(name)
        try:
            shutil.rmtree(path)
        except NotADirectoryError:
            path.unlink(missing_ok=True)
        except FileNotFoundError:
            pass
