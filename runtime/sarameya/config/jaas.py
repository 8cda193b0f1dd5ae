"""User and password in `sasl.jaas.config`: one of Kafka's login modules and its options. Pure.

org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="...";
"""

from __future__ import annotations

import re

from sarameya.secret import Secret

JAAS = "sasl.jaas.config"
OPTIONS = ("sasl_username", "sasl_password")
"""Options that it sets."""

_ENTRY = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)(?P<options>.*?);?\s*", re.DOTALL)
_OPTION = re.compile(
    r"""\s+(?P<name>[\w.]+)\s*=\s*(?:"(?P<quoted>(?:\\.|[^"\\])*)"|'(?P<single>[^']*)'|(?P<bare>[^\s;"']+))"""
)
_BY_PASSWORD = ("PlainLoginModule", "ScramLoginModule")
_BY_MACHINE = {
    "Krb5LoginModule": "tickets are this machine's, a keytab is named by the variable KRB5_CLIENT_KTNAME",
    "IAMLoginModule": "credentials are found as AWS's tools find them, a profile is named by the variable AWS_PROFILE",
}


def credentials(text: str) -> dict[str, str | Secret]:
    """Return the options that the entry means: `sasl_username` and `sasl_password`.

    The password is taken literally: it is no reference to another place. Raises ValueError, whose message shows none of
    the text.
    """
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise ValueError("is not a JAAS entry: a module, 'required', its options, ';'")
    module = entry["module"].rpartition(".")[2]
    if module == "OAuthBearerLoginModule":
        raise ValueError("cannot name the source of tokens here: leave it out, and give Config(sasl_token=...)")
    if module in _BY_MACHINE:
        raise ValueError(f"names {module}: leave it out; {_BY_MACHINE[module]}")
    if module not in _BY_PASSWORD:
        raise ValueError(f"names {module}; only {' and '.join(_BY_PASSWORD)} are supported")
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
