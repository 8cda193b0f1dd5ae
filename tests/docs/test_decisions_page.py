"""docs/decisions.md has the newest decision first."""

from __future__ import annotations

import re

from tests.docs.pages import page

PAGE = page("decisions")


def test_dates_descend() -> None:
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    dates = [re.match(r"(\d{4}-\d{2}-\d{2}): ", heading) for heading in headings[:-1]]
    assert all(dates), headings
    found = [date[1] for date in dates if date]
    assert found == sorted(found, reverse=True)
    assert headings[-1].startswith(f"Until {found[-1]}: ")
