"""An object store: S3, Google Cloud Storage, and what speaks S3's protocol.

A put with the precondition that no object exists (`If-None-Match: *`) gives a name once. What was put is durable, and
seen by the next request. There are no directories, and no renames: a move copies the object within the store, and
deletes the first one.
"""

from __future__ import annotations

import errno
import html
import importlib.util
import io
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import GCSStore, S3Store
from obstore.store import ObjectStore as Client

from sarameya import ConfigError
from sarameya_handlers.landing.errors import UnansweredError
from sarameya_handlers.landing.files import PROBE
from sarameya_handlers.landing.stores.options import ALLOWED, StoreOptions
from sarameya_handlers.landing.stores.store import Store, Stored
from sarameya_handlers.landing.stores.usage import Operation, Usage

if TYPE_CHECKING:
    from obstore.store import S3Credential

_REFUSED = (errno.EACCES, errno.EAGAIN, errno.EINVAL, errno.ENOENT)
"""Errors after which an object was not put, and will not be."""
_STATUS = re.compile(r"status code: (\d{3})")
_RESPONSE = re.compile(r"<Code>(.*?)</Code>\s*<Message>(.*?)</Message>", re.DOTALL)
"""S3's code and text of an error."""
_LATER = (408, 409, 425, 429)
"""Status codes of requests that were not executed, and may be tried again."""
_PASSING = (
    *("ExpiredToken", "IncompleteBody", "RequestTimeout", "RequestTimeTooSkewed", "SlowDown", "TokenRefreshRequired"),
)
"""Codes of errors that pass without a change of the service."""
_EXISTS = ("", "PreconditionFailed")
"""Codes of a put that was refused because the object exists. There are others if puts have met, and none has won."""
_PROBES = 4
_RACERS = 8
"""Number of concurrent puts of a probe."""
_AT_ONCE = 16
"""Number of concurrent copies, and of reads of several objects."""
_LISTED_AT_ONCE = 1000
"""Number of objects in a response to a listing."""
_PART_BYTES = 16 * 2**20
"""Size of the parts in which larger files are put."""
_PARTS_AT_ONCE = 4
_RETRIES = 5
_RETRY_SECONDS = 60
"""Seconds after which a request is not tried again."""
_AGAIN_SECONDS = 0.1
"""Seconds until a refused request is tried again that the client does not try again."""
_RESPONSE_SECONDS = 30
_COPY_SECONDS = 600
_CREDENTIAL_SECONDS = 300
"""Seconds after which botocore is asked again. It renews credentials long before they expire."""


class ObjectStore(Store):
    """Objects below a URL.

    Args:
        url: The URL, without a slash at its end.
        client: Objects below the URL.
        once: The same, without retries: a request that was sent twice may have an outcome that no response tells.
        patient: The same, waiting longer: a copy takes as long as the object is large.
        spark_url: The URL for Spark. By default the same.
        is_trusted: Whether it is known that the store refuses to replace an object, if it is asked to.
        delta_options: Returns the options by which delta-rs reaches this store now.
    """

    max_file_bytes = 4 * 2**30  # S3 copies at most 5 GB in one request
    moves_by_copy = True

    def __init__(
        self,
        url: str,
        client: Client,
        *,
        once: Client | None = None,
        patient: Client | None = None,
        spark_url: str = "",
        is_trusted: bool = True,
        delta_options: Callable[[], dict[str, str]] = dict,
    ) -> None:
        self._url = url
        self._client = client
        self._once = once or client
        self._patient = patient or client
        self._spark_url = spark_url or url
        self._is_trusted = is_trusted
        self._delta_options = delta_options
        self.usage = Usage()

    def __repr__(self) -> str:
        return f"ObjectStore({self._url!r})"

    @property
    def place(self) -> str:
        return self._url

    def spark_url(self, name: str) -> str:
        return f"{self._spark_url}/{name}"

    def delta_options(self) -> dict[str, str]:
        return self._delta_options()

    def prepare(self, directories: Iterable[str]) -> None:
        for directory in directories:
            probe = f"{directory}/_probe-{uuid4().hex}".lstrip("/")
            self.put_over(probe, b"probe")
            self._delete([probe])

    @property
    def is_trusted(self) -> bool:
        return self._is_trusted

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
                obstore.put(self._once, name, content, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in _REFUSED:
                raise
            raise UnansweredError(error.errno, error.strerror, error.filename) from error
        return True

    def put_over(self, name: str, content: bytes, *, durably: bool = False) -> None:
        for is_last in (*[False] * _RETRIES, True):
            try:
                with self._request("put", name, sent=len(content)):
                    obstore.put(self._client, name, content, use_multipart=False)
            except OSError as error:
                # Some gateways refuse an object while they remove the directory that another one was the last in.
                if is_last or error.errno != errno.EAGAIN:
                    raise
                time.sleep(_AGAIN_SECONDS)
            else:
                return

    def take(self, file: Path, name: str) -> None:
        self.copy_in(file, name)
        file.unlink()

    def copy_in(self, file: Path, name: str) -> None:
        if not file.exists():
            raise FileNotFoundError(errno.ENOENT, "another program removed it", str(file))
        size = file.stat().st_size
        # In parts, the store charges each part, and one request before and after them.
        count = 1 if size <= _PART_BYTES else 2 + -(-size // _PART_BYTES)
        with self._request("put", name, count, sent=size):
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
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _, group in groupby(moves, key=lambda move: (_parent(move[0]), _parent(move[1]))):
                list(pool.map(self._move, group))

    def _move(self, move: tuple[str, str]) -> None:
        name, to = move
        with suppress(FileNotFoundError):  # another process has moved it
            with self._request("copy", name):
                obstore.copy(self._patient, name, to)
            self._delete([name])

    def rename(self, directory: str, to: str) -> None:
        self.move([(name, to + name.removeprefix(directory)) for name in self.names(directory)])

    def tidy(self, directory: str) -> None:
        pass

    def remove(self, name: str) -> None:
        self._delete([*self.names(name)] or [name])

    def _delete(self, names: Sequence[str]) -> None:
        with suppress(FileNotFoundError), self._request("delete", names[0]):
            obstore.delete(self._client, names[0] if len(names) == 1 else names)

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
            raise _os_error(error, f"{self._url}/{name}") from error


def _os_error(error: Exception, name: str) -> OSError:
    """Return the error as one of a file system."""
    text = str(error)
    code, message = found.groups() if (found := _RESPONSE.search(text)) else ("", text.partition("\n")[0])
    reason = html.unescape(f"{code}: {message}" if code else message)
    if isinstance(error, AlreadyExistsError) and code in _EXISTS:
        return FileExistsError(errno.EEXIST, "the object exists", name)
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    if status in _LATER or code in _PASSING or isinstance(error, AlreadyExistsError):
        return OSError(errno.EAGAIN, reason, name)
    if code == "NoSuchBucket":
        return OSError(errno.EINVAL, reason, name)  # an object that is missing would mean that it was never put
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, reason if code else "there is no such object", name)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError):
        return PermissionError(errno.EACCES, reason, name)
    if isinstance(error, NotSupportedError | InvalidPathError | NotImplementedError) or status // 100 in (3, 4):
        return OSError(errno.EINVAL, reason, name)
    return OSError(errno.EIO, reason, name)


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


class ObjectReader(io.RawIOBase):
    """Reads an object by ranges: what pyarrow needs of a file."""

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


def object_store(url: str, options: StoreOptions) -> ObjectStore:
    """Return the store at a URL, with the credentials that the cloud's own tools would use.

    Raises:
        ConfigError: The URL or an option is invalid.
    """
    scheme, _, rest = url.partition("://")
    if "@" in rest:
        raise ConfigError("path", f"{scheme}://...", "must have no credentials")
    try:
        if scheme in ("s3", "s3a"):
            endpoint = options.endpoint or _endpoint_of_environment()
            if (stronger := os.environ.get("AWS_ENDPOINT_URL_S3", endpoint)) != endpoint:
                raise ConfigError("store.endpoint", endpoint, f"must be AWS_ENDPOINT_URL_S3, which is {stronger}")
            given = {"endpoint": endpoint, "region": options.region}
            config: Any = {name: value for name, value in given.items() if value}
            credentials = _aws_credentials()
            make = partial(S3Store.from_url, f"s3://{rest}", config=config, credential_provider=credentials)
            client, once, patient = _clients(make, allows_http=endpoint.startswith("http://"))
            is_trusted = options.trusted or _is_amazons(endpoint)
            spark_url = f"s3a://{rest}"
            return ObjectStore(
                url,
                client,
                once=once,
                patient=patient,
                spark_url=spark_url,
                is_trusted=is_trusted,
                delta_options=partial(_delta_options, endpoint, options.region, credentials),
            )
        if options != StoreOptions():
            raise ConfigError("store", options, "is for s3:// only")
        if scheme == "gs":
            client, once, patient = _clients(partial(GCSStore.from_url, url))
            return ObjectStore(url, client, once=once, patient=patient)
    except (BaseError, ValueError) as error:
        raise ConfigError("path", url, f"is refused: {str(error).partition(chr(10))[0]}") from error
    raise ConfigError("path", url, ALLOWED)


def _clients(make: Callable[..., Client], *, allows_http: bool = False) -> tuple[Client, Client, Client]:
    """Return `client`, `once` and `patient` of an `ObjectStore`."""

    def client(seconds: float, retries: int) -> Client:
        return make(
            retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
            client_options={"timeout": timedelta(seconds=seconds), "allow_http": allows_http},
        )

    return client(_RESPONSE_SECONDS, _RETRIES), client(_RESPONSE_SECONDS, 0), client(_COPY_SECONDS, _RETRIES)


def _delta_options(endpoint: str, region: str, credentials: Callable[[], S3Credential] | None) -> dict[str, str]:
    """Return delta-rs's options of an S3 store. What is left out it finds in the environment."""
    found: Mapping[str, Any] = credentials() if credentials is not None else {}
    options = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower(),
        "AWS_REGION": region,
        "AWS_ACCESS_KEY_ID": found.get("access_key_id"),
        "AWS_SECRET_ACCESS_KEY": found.get("secret_access_key"),
        "AWS_SESSION_TOKEN": found.get("token"),
    }
    return {name: str(value) for name, value in options.items() if value}


def _endpoint_of_environment() -> str:
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _is_amazons(endpoint: str) -> bool:
    return not endpoint or (urlsplit(endpoint).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))


def _aws_credentials() -> Callable[[], S3Credential] | None:
    """Return a function that finds credentials as AWS's own tools do. Without botocore obstore finds most of them."""
    if importlib.util.find_spec("botocore") is None:
        return None
    found: list[Any] = []

    def credentials() -> S3Credential:
        # Not before the first request: it may take seconds to find none.
        if not found:
            from botocore.session import Session

            if (chain := Session().get_credentials()) is None:
                raise PermissionError("there are none in the environment, in AWS's files, or of this machine's role")
            found.append(chain)
        frozen = found[0].get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + timedelta(seconds=_CREDENTIAL_SECONDS),
        }

    return credentials
