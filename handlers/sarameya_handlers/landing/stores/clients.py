"""Clients of object stores: S3 and stores with its protocol, Google Cloud Storage, and Azure's.

Credentials come from where the cloud's own tools look for them. Errors of a client become errors of a file system.
"""

from __future__ import annotations

import errno
import html
import importlib.util
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store
from obstore.store import ObjectStore as Client

from sarameya import ConfigError
from sarameya_handlers.landing.stores.options import ALLOWED, StoreOptions

if TYPE_CHECKING:
    from obstore.store import S3Credential

_AZURE = re.compile(r"abfss://[^@:/?#]+@(?P<account>[^@:/?#.]+)\.dfs\.core\.windows\.net(?:/[^?#]*)?")
_STATUS = re.compile(r"(?:status code: |\(code: )(\d{3})")
_RESPONSE = re.compile(r"<Code>(.*?)</Code>\s*<Message>(.*?)</Message>", re.DOTALL)
"""Code and text of an error of S3 or Azure."""
_LATER = (408, 409, 425, 429)
"""Status codes of requests that were not executed and may be retried."""
_PASSING = (
    *("ExpiredToken", "IncompleteBody", "InvalidBlockList", "RequestTimeout", "RequestTimeTooSkewed", "SlowDown"),
    "TokenRefreshRequired",
)
"""Codes of errors that pass without a change of the service."""
_EXISTS = ("", "PreconditionFailed", "BlobAlreadyExists")
"""Codes of a put that was refused because the object exists. Concurrent puts that all fail get another code."""
_LASTING = ("AccountIsDisabled", "BlobImmutableDueToPolicy", "DirectoryIsNotEmpty", "ResourceTypeMismatch")
"""Codes of status 409 that do not pass."""
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_RETRIES = 5
_RETRY_SECONDS = 60
"""Seconds for which a request is retried."""
_RESPONSE_SECONDS = 30
_COPY_SECONDS = 600
_CREDENTIAL_SECONDS = 300
"""Seconds for which botocore's credentials are cached. botocore renews them long before they expire."""


@attrs.frozen(slots=True, eq=False)
class Access:
    """Clients of the objects below a URL, and properties of their store.

    Attributes:
        client: Retries a request.
        once: Sends a request once: if a put is sent twice, its response may not show the true outcome.
        patient: Like `client`, and waits longer: a copy takes as long as the object is large.
        copies: True if a copy within the store has ended when its response comes.
        spark_url: The URL for Spark. By default that of users.
        is_trusted: True if it is known that a put with the precondition never replaces an object.
        delta_options: Returns the options by which delta-rs reaches this store now.
    """

    client: Client
    once: Client = attrs.field(default=attrs.Factory(lambda self: self.client, takes_self=True), kw_only=True)
    patient: Client = attrs.field(default=attrs.Factory(lambda self: self.client, takes_self=True), kw_only=True)
    copies: bool = attrs.field(default=True, kw_only=True)
    spark_url: str = attrs.field(default="", kw_only=True)
    is_trusted: bool = attrs.field(default=True, kw_only=True)
    delta_options: Callable[[], dict[str, str]] = attrs.field(default=dict, kw_only=True)


def access(url: str, options: StoreOptions) -> Access:
    """Return the access to the objects below a URL, with the credentials that the cloud's own tools would use.

    Raises:
        ConfigError: The URL or an option is invalid.
    """
    scheme, _, rest = url.partition("://")
    if scheme == "abfss":
        return _azure(url, options)
    if "@" in rest:
        raise ConfigError("path", f"{scheme}://...", "must have no credentials")
    match scheme:
        case "s3" | "s3a":
            return _s3(url, rest, options)
        case "gs":
            if options != StoreOptions():
                raise ConfigError("store", options, "is not for gs://")
            return _accessed(url, partial(GCSStore.from_url, url))
        case _:
            raise ConfigError("path", url, ALLOWED)


def _s3(url: str, place: str, options: StoreOptions) -> Access:
    endpoint = options.endpoint or _of_environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    if (stronger := os.environ.get("AWS_ENDPOINT_URL_S3", endpoint)) != endpoint:
        raise ConfigError("store.endpoint", endpoint, f"must be AWS_ENDPOINT_URL_S3, which is {stronger}")
    given = {"endpoint": endpoint, "region": options.region}
    config: Any = {name: value for name, value in given.items() if value}
    credentials = _aws_credentials()
    return _accessed(
        url,
        partial(S3Store.from_url, f"s3://{place}", config=config, credential_provider=credentials),
        endpoint,
        spark_url=f"s3a://{place}",
        is_trusted=options.trusted or _is_amazons(endpoint),
        delta_options=partial(_delta_options, endpoint, options.region, credentials),
    )


def _azure(url: str, options: StoreOptions) -> Access:
    if (place := _AZURE.fullmatch(url)) is None:
        # Without the URL: it may have a signature.
        problem = "must be abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH, without credentials"
        raise ConfigError("path", "abfss://...", problem)
    if options.region:
        raise ConfigError("store.region", options.region, "is for s3:// only")
    endpoint = options.endpoint or _of_environment("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
    if endpoint and place["account"] not in re.split(r"[/.]+", endpoint):
        raise ConfigError("store.endpoint", endpoint, f"must be the URL of the account {place['account']}")
    config: Any = {"endpoint": endpoint} if endpoint else {}
    return _accessed(
        url,
        partial(AzureStore.from_url, url, config=config),
        endpoint,
        copies=False,  # it responds to some copies before they have ended, and the client does not say so
        is_trusted=options.trusted or not endpoint,
    )


def _accessed(url: str, make: Callable[..., Client], endpoint: str = "", **properties: Any) -> Access:
    def client(seconds: float, retries: int) -> Client:
        return make(
            retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
            client_options={"timeout": timedelta(seconds=seconds), "allow_http": endpoint.startswith("http://")},
        )

    try:
        return Access(
            client(_RESPONSE_SECONDS, _RETRIES),
            once=client(_RESPONSE_SECONDS, 0),
            patient=client(_COPY_SECONDS, _RETRIES),
            **properties,
        )
    except (BaseError, ValueError) as error:
        raise ConfigError("path", url, f"is refused: {str(error).partition(chr(10))[0]}") from error


def _delta_options(endpoint: str, region: str, credentials: Callable[[], S3Credential] | None) -> dict[str, str]:
    """Return delta-rs's options of an S3 store. delta-rs reads missing options from the environment."""
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


def _of_environment(*names: str) -> str:
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
                raise PermissionError("no AWS credentials in the environment, AWS's files or the machine's role")
            found.append(chain)
        frozen = found[0].get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + timedelta(seconds=_CREDENTIAL_SECONDS),
        }

    return credentials


def os_error(error: Exception, name: str) -> OSError:
    """Return the error as one of a file system."""
    text = str(error)
    code, message = found.groups() if (found := _RESPONSE.search(text)) else ("", text.partition("\n")[0])
    reason = html.unescape(f"{code}: {message}" if code else message)
    if isinstance(error, AlreadyExistsError) and code in _EXISTS:
        return FileExistsError(errno.EEXIST, "the object exists", name)
    status = int(found[1]) if (found := _STATUS.search(text)) else 0
    if code not in _LASTING and (status in _LATER or code in _PASSING or isinstance(error, AlreadyExistsError)):
        return OSError(errno.EAGAIN, reason, name)
    if code in _NO_BUCKET:
        return OSError(errno.EINVAL, reason, name)  # an object that is missing would mean that it was never put
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, reason if code else "there is no such object", name)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or status in (401, 403):
        return PermissionError(errno.EACCES, reason, name)
    if isinstance(error, NotSupportedError | InvalidPathError | NotImplementedError) or status // 100 in (3, 4):
        return OSError(errno.EINVAL, reason, name)
    return OSError(errno.EIO, reason, name)
