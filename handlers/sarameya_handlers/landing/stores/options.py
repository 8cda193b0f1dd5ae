"""Options of an object store."""

from __future__ import annotations

from typing import Any

import attrs

from sarameya import ConfigError
from sarameya.option_kinds import boolean, from_table, text

ALLOWED = (
    "must be a directory, or s3://BUCKET/PATH, gs://BUCKET/PATH or abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
)


def _check_url(validated: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    text(validated, attribute, value)
    if value and not value.startswith(("http://", "https://")):
        raise ConfigError(attribute.name, value, "must be a URL, http://... or https://...")


@attrs.frozen(slots=True, kw_only=True)
class StoreOptions:
    """Place of an object store. Credentials come from where the cloud's own tools look for them."""

    endpoint: str = attrs.field(default="", validator=_check_url)
    """URL of a store that speaks S3's protocol; by default AWS's, or AWS_ENDPOINT_URL. For abfss:// the URL of the
    account, by default Azure's, or AZURE_STORAGE_ENDPOINT."""
    region: str = attrs.field(default="", validator=text)
    """Region of the bucket. By default AWS_REGION."""
    trusted: bool = attrs.field(default=False, validator=boolean)
    """True to confirm that a store at an `endpoint` refuses a put with `If-None-Match: *` if the object exists, always.
    Exactly once depends on it. It is tried at each start, which may not detect a store that only rarely fails to."""


def store_options(options: Any) -> StoreOptions:
    """Return the options of an app file's table `store`. Raises ConfigError."""
    return from_table(StoreOptions, options, "store.")
