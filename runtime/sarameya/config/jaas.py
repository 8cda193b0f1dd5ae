"""User and password in `sasl.jaas.config`: one of Kafka's login modules and its options. Pure.

org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="...";
"""

from __future__ import annotations

import re

from sarameya.secret import Secret

JAAS = "sasl.jaas.config"
OPTIONS = ("sasl_username", "sasl_password")
"""Options of `Config` that the entry sets."""

_ENTRY = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)(?P<options>.*?);?\s*", re.DOTALL)
_OPTION = re.compile(
    r"""\s+(?P<name>[\w.]+)\s*=\s*(?:"(?P<quoted>(?:\\.|[^"\\])*)"|'(?P<single>[^']*)'|(?P<bare>[^\s;"']+))"""
)
_WITH_PASSWORD = ("PlainLoginModule", "ScramLoginModule")
_CREDENTIALS_OF_MACHINE = {
    "Krb5LoginModule": "Kerberos uses this machine's tickets; the variable KRB5_CLIENT_KTNAME names a keytab",
    "IAMLoginModule": "credentials are found as AWS's tools find them; the variable AWS_PROFILE names a profile",
}


def credentials(text: str) -> dict[str, str | Secret]:
    """Return the options that the entry sets: `sasl_username` and `sasl_password`.

    The password is taken literally, never as a reference such as `env:NAME`.

    Raises:
        ValueError: The entry is not valid or not supported. The message shows names of the entry, but no value.
    """
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise ValueError("is not a JAAS entry: a module, 'required', its options, ';'")
    module = entry["module"].rpartition(".")[2]
    if module == "OAuthBearerLoginModule":
        raise ValueError("cannot name the source of tokens here: leave it out, and give Config(sasl_token=...)")
    if module in _CREDENTIALS_OF_MACHINE:
        raise ValueError(f"names {module}: leave it out; {_CREDENTIALS_OF_MACHINE[module]}")
    if module not in _WITH_PASSWORD:
        raise ValueError(f"names {module}; only {' and '.join(_WITH_PASSWORD)} are supported")
    options = _options(entry["options"])
    for name in options:
        if name not in ("username", "password"):
            raise ValueError(f"has the unknown option {name}")
    for name in ("username", "password"):
        if not options.get(name):
            raise ValueError(f"has no {name}")
    return {"sasl_username": options["username"], "sasl_password": Secret(options["password"])}


def _options(text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    end = 0
    for option in _OPTION.finditer(text):
        if text[end : option.start()].strip():
            break
        end = option.end()
        quoted = option["quoted"]
        value = option["single"] or option["bare"] or "" if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        options[option["name"]] = value
    if text[end:].strip():
        raise ValueError('has options that are not name="value"')
    return options
