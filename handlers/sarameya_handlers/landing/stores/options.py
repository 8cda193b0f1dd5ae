"""Options of an object store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from sarameya import ConfigError
from sarameya_handlers.options import check_known

ALLOWED = (
    "must be a directory, or s3://BUCKET/PATH, gs://BUCKET/PATH or abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
)


def _check_bool(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if type(value) is not bool:
        raise ConfigError(f"store.{attribute.name}", value, "must be true or false")


def _check_url(validated: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    _check_text(validated, attribute, value)
    if value and not value.startswith(("http://", "https://")):
        raise ConfigError(f"store.{attribute.name}", value, "must be a URL, http://... or https://...")


def _check_text(_: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"store.{attribute.name}", value, "must be text")


@attrs.frozen(slots=True, kw_only=True)
class StoreOptions:
    """Place of an object store. Credentials come from where the cloud's own tools look for them."""

    endpoint: str = attrs.field(default="", validator=_check_url)
    """URL of a store that speaks S3's protocol; by default AWS's, or AWS_ENDPOINT_URL. For abfss:// the URL of the
    account, by default Azure's, or AZURE_STORAGE_ENDPOINT."""
    region: str = attrs.field(default="", validator=_check_text)
    """Region of the bucket. By default AWS_REGION."""
    trusted: bool = attrs.field(default=False, validator=_check_bool)
    """True to confirm that a store at an `endpoint` refuses a put with `If-None-Match: *` if the object exists, always.
    Exactly once depends on it. It is tried at each start, which may not detect a store that only rarely fails to."""


def store_options(options: Any) -> StoreOptions:
    """Return the options of an app file's table `store`. Raises ConfigError."""
    if not isinstance(options, Mapping):
        raise ConfigError("store", options, "must be a table of options")
    check_known(options, [field.name for field in attrs.fields(StoreOptions)], "store.")
    return StoreOptions(**options)
