"""What an OAUTHBEARER broker is shown."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from sarameya.secret import Secret


def _secret(value: Secret | str) -> Secret:
    return value if isinstance(value, Secret) else Secret(value)


@attrs.frozen(slots=True)
class Token:
    """An access token (RFC 7628), and the extensions that go along with it (KIP-342). Its value is not shown."""

    value: Secret = attrs.field(converter=_secret)
    extensions: Mapping[str, str] = attrs.field(factory=dict)
