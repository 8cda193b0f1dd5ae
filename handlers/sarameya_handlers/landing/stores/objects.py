"""Files in an object store.

A put with the precondition that no object exists (`If-None-Match: *`) gives a name once. What was put is durable, and
seen by the next request. There are no directories, and no renames: a move copies the object, and deletes the first one.
"""

from __future__ import annotations

import errno
import io
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError

from sarameya_handlers.landing.errors import UnansweredError
from sarameya_handlers.landing.files import PROBE
from sarameya_handlers.landing.stores.clients import Access, os_error
from sarameya_handlers.landing.stores.store import Store, Stored
from sarameya_handlers.landing.stores.usage import Operation, Usage

_REFUSED = (errno.EACCES, errno.EAGAIN, errno.EINVAL, errno.ENOENT)
"""Errors after which an object was not put, and will not be."""
_PROBES = 4
_RACERS = 8
"""Number of concurrent puts of a probe."""
_AT_ONCE = 16
"""Number of concurrent copies, and of reads of several objects."""
_IN_MEMORY = 2
"""Number of concurrent copies through this process, which are in memory meanwhile."""
_LISTED_AT_ONCE = 1000
"""Number of objects in a response to a listing."""
_PART_BYTES = 16 * 2**20
"""Size of the parts in which larger files are put."""
_PARTS_AT_ONCE = 4
_TRIES = 6
"""Number of attempts at a request that the store refuses for a moment, and that the client does not retry."""
_PAUSE_SECONDS = 0.1
"""Seconds between these attempts."""


class ObjectStore(Store):
    """Objects below a URL.

    Args:
        url: The URL, without a slash at its end.
        access: How to reach the objects below the URL.
    """

    moves_by_copy = True

    def __init__(self, url: str, access: Access) -> None:
        self._url = url
        self._access = access
        self._client = access.client
        # S3 copies at most 5 GB in one request. A copy through this process is in memory.
        self.max_file_bytes = 4 * 2**30 if access.copies else 512 * 2**20
        self.usage = Usage()

    def __repr__(self) -> str:
        return f"ObjectStore({self._url!r})"

    @property
    def place(self) -> str:
        return self._url

    def spark_url(self, name: str) -> str:
        return f"{self._access.spark_url or self._url}/{name}"

    def delta_options(self) -> dict[str, str]:
        return self._access.delta_options()

    def prepare(self, directories: Iterable[str]) -> None:
        for directory in directories:
            probe = f"{directory}/_probe-{uuid4().hex}".lstrip("/")
            self.put_over(probe, b"probe")
            self._delete([probe])

    @property
    def is_trusted(self) -> bool:
        return self._access.is_trusted

    def gives_names_once(self, directory: str) -> bool:
        """Return whether one of many concurrent puts of a name succeeds, and the object is the winner's."""
        return all(self._has_one_winner(f"{directory}/{PROBE}{uuid4().hex}") for _ in range(_PROBES))

    def _has_one_winner(self, name: str) -> bool:
        contents = [f"racer {number}".encode() for number in range(_RACERS)]
        try:
            with ThreadPoolExecutor(_RACERS) as racers:
                won = list(racers.map(partial(self.put_if_absent, name), contents))
            if True not in won:
                raise OSError(errno.EIO, "no put of a new name succeeded", f"{self._url}/{name}")
            return won.count(True) == 1 and self.get(name) == contents[won.index(True)]
        finally:
            self._delete([name])

    def put_if_absent(self, name: str, content: bytes, check: Callable[[], object] = lambda: None) -> bool:
        check()
        try:
            with self._request("put", name, sent=len(content)):
                obstore.put(self._access.once, name, content, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in _REFUSED:
                raise
            raise UnansweredError(error.errno, error.strerror, error.filename) from error
        return True

    def put_over(self, name: str, content: bytes, *, durably: bool = False) -> None:
        for is_last in (*[False] * (_TRIES - 1), True):
            try:
                with self._request("put", name, sent=len(content)):
                    obstore.put(self._client, name, content, use_multipart=False)
            except OSError as error:
                # Some gateways refuse an object while they remove the directory that another one was the last in.
                if is_last or error.errno != errno.EAGAIN:
                    raise
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def take(self, file: Path, name: str) -> None:
        self.copy_in(file, name)
        file.unlink()

    def copy_in(self, file: Path, name: str) -> None:
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, "another program removed it", str(file))
        size = file.stat().st_size
        with self._request("put", name, _puts(size), sent=size):
            obstore.put(self._client, name, file, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE)

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "file")
            yield file
            self.take(file, name)

    def get(self, name: str) -> bytes | None:
        try:
            with self._request("get", name):
                content = bytes(obstore.get(self._client, name).bytes())
        except FileNotFoundError:
            return None
        self.usage.receive(len(content))
        return content

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(names), 4 * _AT_ONCE):
                yield from pool.map(self.get, names[start : start + 4 * _AT_ONCE])

    def is_there(self, name: str) -> bool:
        return self._head(name) is not None

    def has_files(self, directory: str) -> bool:
        return next(self._listed(directory), None) is not None

    def open(self, name: str) -> ObjectReader:
        with self._request("head", name):
            size = obstore.head(self._client, name)["size"]
        return ObjectReader(self, name, size)

    def read(self, name: str, start: int, end: int) -> bytes:
        """Return bytes of an object. Raises FileNotFoundError."""
        with self._request("get", name):
            content = bytes(obstore.get_range(self._client, name, start=start, end=end))
        self.usage.receive(len(content))
        return content

    def names(self, directory: str, enters: Callable[[str], bool] = lambda name: True) -> Iterator[str]:
        for name, _ in self._listed(directory):
            if all(map(enters, name.removeprefix(directory).strip("/").split("/")[:-1])):
                yield name

    def entries(self, directory: str) -> list[str]:
        with self._request("list", directory):
            found = obstore.list_with_delimiter(self._client, directory or None)
        names = [*found["common_prefixes"], *(each["path"] for each in found["objects"] if each["size"])]
        return sorted(name.rpartition("/")[2] for name in names)

    def measure(self, name: str) -> Stored | None:
        if (found := self._head(name)) is not None:
            return found
        inside = [stored for _, stored in self._listed(name)]
        if not inside:
            return None
        return Stored(sum(stored.size_bytes for stored in inside), max(stored.changed for stored in inside))

    def unfinished(self, directory: str) -> list[str]:
        return []

    def sync_files(self, directory: str, names: Iterable[str]) -> None:
        pass

    def sync_names(self, directory: str) -> None:
        pass

    def move(self, moves: Sequence[tuple[str, str]]) -> None:
        if len(moves) == 1:
            self._move(moves[0])
            return
        # Files of one directory at the same time, as one of them would be on a disk; directories in their order.
        with ThreadPoolExecutor(_AT_ONCE if self._access.copies else _IN_MEMORY) as pool:
            for _, group in groupby(moves, key=lambda move: (_parent(move[0]), _parent(move[1]))):
                list(pool.map(self._move, group))

    def _move(self, move: tuple[str, str]) -> None:
        name, to = move
        try:
            if self._access.copies:
                with self._request("copy", name):
                    obstore.copy(self._access.patient, name, to)
            else:
                self._copy_through(name, to)
        except FileNotFoundError:
            return  # another process has moved it
        self._delete([name])

    def _copy_through(self, name: str, to: str) -> None:
        """Copy an object through this process: in one request, so that several processes may copy it at once."""
        with self._request("get", name):
            content = obstore.get(self._access.patient, name).bytes()
        self.usage.receive(len(content))
        # A file that exists has this content, since its name has the attempt that wrote it.
        with suppress(FileExistsError), self._request("put", to, sent=len(content)):
            obstore.put(self._access.patient, to, content, mode="create", use_multipart=False)

    def rename(self, directory: str, to: str) -> None:
        self.move([(name, to + name.removeprefix(directory)) for name in self.names(directory)])

    def tidy(self, directory: str) -> None:
        pass

    def remove(self, name: str) -> None:
        self._delete([*self.names(name)] or [name])

    def _delete(self, names: Sequence[str]) -> None:
        try:
            with self._request("delete", names[0]):
                obstore.delete(self._client, names[0] if len(names) == 1 else names)
        except FileNotFoundError:
            if len(names) > 1:  # Azure reports an object that is gone, and the client may not continue after it
                for name in names:
                    self._delete([name])

    def _head(self, name: str) -> Stored | None:
        try:
            with self._request("head", name):
                found = obstore.head(self._client, name)
        except FileNotFoundError:
            return None
        return Stored(found["size"], found["last_modified"].timestamp())

    def _listed(self, directory: str) -> Iterator[tuple[str, Stored]]:
        with self._request("list", directory):
            for number, page in enumerate(obstore.list(self._client, directory or None, chunk_size=_LISTED_AT_ONCE)):
                if number:
                    self.usage.add("list")
                for each in page:
                    if each["size"]:  # other programs mark directories by empty objects
                        yield each["path"], Stored(each["size"], each["last_modified"].timestamp())

    @contextmanager
    def _request(self, operation: Operation, name: str, count: int = 1, *, sent: int = 0) -> Iterator[None]:
        """Count a request, or several, of the block. Raise errors of the client as OSError."""
        self.usage.add(operation, count, sent=sent)
        try:
            yield
        except (BaseError, FileNotFoundError, NotImplementedError) as error:
            raise os_error(error, f"{self._url}/{name}") from error


def _puts(size: int) -> int:
    """Return the number of requests for an object: the store charges each part, one before and one after them."""
    return 1 if size <= _PART_BYTES else 2 + -(-size // _PART_BYTES)


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


class ObjectReader(io.RawIOBase):
    """A file object for pyarrow that reads an object by ranges."""

    def __init__(self, store: ObjectStore, name: str, size: int) -> None:
        self._store = store
        self._name = name
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        end = self._size if size is None or size < 0 else min(self._position + size, self._size)
        if end <= self._position:
            return b""
        content = self._store.read(self._name, self._position, end)
        self._position = end
        return content
