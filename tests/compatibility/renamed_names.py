"""Recorded names that were renamed since then: old name -> new name, by kind.

A name may be listed here only if the old name still works with a warning; the tests of this folder check both.
`DEFAULTS` has the new value of each option whose default was changed on purpose; the changelog has it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEYS: Mapping[str, str] = {}
"""Keys of app files, as `config show` names them: `config.old` -> `config.new`."""
DEFAULTS: Mapping[str, Any] = {}
METRICS: Mapping[str, str] = {}
EVENTS: Mapping[str, str] = {}
