"""Names that users hold and that are others by now, by kind: today's name of each recorded one.

A name may stand here only if the old one still works and warns: the tests here look for both in what is printed.
`DEFAULTS` has options whose default is another by now, on purpose, with the new value; the changelog says so, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEYS: Mapping[str, str] = {}
"""Keys of app files, as `config show` names them: `config.old` -> `config.new`."""
DEFAULTS: Mapping[str, Any] = {}
METRICS: Mapping[str, str] = {}
EVENTS: Mapping[str, str] = {}
