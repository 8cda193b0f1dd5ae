"""One Chromium for all of these tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.integration.browser.chromium import Browser, chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("needs chromium (make test says how to get it)")
    with chromium(executable) as browser:
        yield browser
