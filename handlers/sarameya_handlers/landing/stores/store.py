"""The interface between a landed directory and the storage of its files.

A file has a name relative to the directory's root, with slashes: `_sarameya/links/sink/orders/0/head`. Exactly once
depends on one method, `put_if_absent`: of all callers, in all processes, one puts a file of that name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from io import RawIOBase
from pathlib import Path

import attrs

from sarameya_handlers.landing.stores.usage import Usage


@attrs.frozen(slots=True)
class Stored:
    """Size and last change of a file, or of everything in a directory."""

    size_bytes: int
    changed: float
    """Seconds since 1970."""


class Store(ABC):
    """Files below a root. All methods block, and raise OSError if the storage fails."""

    max_file_bytes: int | None = None
    """Size of the largest file that can be moved; None for any size."""

    moves_by_copy = False
    """True if a move copies the file."""

    usage: Usage
    """Requests to the store that are charged. A file system has none."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The root as users write it: a path, or a URL."""

    @abstractmethod
    def spark_url(self, name: str) -> str:
        """Return the URL of a file or directory for Spark."""

    def delta_options(self) -> dict[str, str]:
        """Return the options by which delta-rs reaches this store now. They may have credentials."""
        return {}

    @abstractmethod
    def prepare(self, directories: Iterable[str]) -> None:
        """Create the root and these directories, if they are missing and the storage has directories.

        Raises:
            OSError: This process cannot write there.
        """

    @property
    def is_trusted(self) -> bool:
        """Return whether it is documented that `put_if_absent` refuses a name that is taken."""
        return True

    @abstractmethod
    def gives_names_once(self, directory: str) -> bool:
        """Return whether `put_if_absent` refuses a name that is taken, by trying it in a directory that exists."""

    @abstractmethod
    def put_if_absent(self, name: str, content: bytes, check: Callable[[], object] = lambda: None) -> bool:
        """Put a file with this content, durably and whole, if no file has its name. Exactly one caller succeeds.

        Args:
            name: The file's name.
            content: The whole content.
            check: Called right before the name is taken. Its exceptions propagate, and nothing is put.

        Returns:
            True if this call put the file; False if another file has its name.

        Raises:
            UnansweredError: The outcome is unknown, and the put may still take effect.
            OSError: The file was not put, and will not be.
        """

    @abstractmethod
    def put_over(self, name: str, content: bytes, *, durably: bool = False) -> None:
        """Replace a file atomically, or put it. Unless `durably`, it may be lost when the machine goes down."""

    @abstractmethod
    def take(self, file: Path, name: str) -> None:
        """Move a local file here. It is durable after `sync_files`."""

    @abstractmethod
    def copy_in(self, file: Path, name: str) -> None:
        """Copy a local file here. It is durable after `sync_files`. Raises FileNotFoundError if there is none."""

    @abstractmethod
    def writing(self, name: str) -> AbstractContextManager[Path]:
        """Return a context with a local path. After the context, the file has the content of that path."""

    @abstractmethod
    def get(self, name: str) -> bytes | None:
        """Return the content of a file; None if there is no such file."""

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Yield the contents of several files, in their order; None for each that is missing."""
        yield from map(self.get, names)

    @abstractmethod
    def is_there(self, name: str) -> bool:
        """Return whether there is such a file."""

    @abstractmethod
    def has_files(self, directory: str) -> bool:
        """Return whether there is such a directory. On an object store, one without files does not exist."""

    @abstractmethod
    def open(self, name: str) -> str | RawIOBase:
        """Return what pyarrow opens to read a file. Raises FileNotFoundError now, or when it is read."""

    @abstractmethod
    def names(self, directory: str, enters: Callable[[str], bool] = lambda name: True) -> Iterator[str]:
        """Yield the names of all files below a directory, at any depth; none if there is no such directory.

        Args:
            directory: The directory.
            enters: Whether files below a directory are yielded, given its name without those of its parents.
        """

    @abstractmethod
    def entries(self, directory: str) -> list[str]:
        """Return the names of the directories in a directory, and of its files, in order; without their directory."""

    @abstractmethod
    def measure(self, name: str) -> Stored | None:
        """Return size and last change of a file or directory; None if there is none."""

    @abstractmethod
    def unfinished(self, directory: str) -> list[str]:
        """Return the names of files in a directory that are being put, or whose writer died."""

    @abstractmethod
    def sync_files(self, directory: str, names: Iterable[str]) -> None:
        """Make files below a directory durable, their names, and that of the directory."""

    @abstractmethod
    def sync_names(self, directory: str) -> None:
        """Make the names in a directory durable that another process may have put, and died."""

    @abstractmethod
    def move(self, moves: Sequence[tuple[str, str]]) -> None:
        """Give files other names, in this order, durably. Skip those that are gone: another process moves them, too."""

    @abstractmethod
    def rename(self, directory: str, to: str) -> None:
        """Give a directory another name, which no directory has."""

    @abstractmethod
    def tidy(self, directory: str) -> None:
        """Remove a directory that has no Parquet files any more. Do nothing if directories do not exist here."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all files below it. Do nothing if there is none."""
