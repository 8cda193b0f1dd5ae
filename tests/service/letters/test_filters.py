"""Filters of letters, and the grouping of similar error messages."""

from __future__ import annotations

from typing import Any

import pytest

from sarameya.service.groups.topic_choice import TopicChoice
from sarameya.service.letters.filters import LetterFilter, folded
from tests.service.letters.kit import failure_headers, letter


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("timed out", "timed out"),
        ("no customer 17", "no customer #"),
        ("KeyError: 'order-8471'", "KeyError: 'order-#'"),
        ("order_8471 of code8471", "order_# of code#"),
        ("id 550e8400-e29b-41d4-a716-446655440000 is gone", "id # is gone"),
        ("at 0x7f3a, 2026-11-26T11:58:24.5Z from 10.0.0.1:9092", "at #, #T#Z from #"),
        ("<Order object at 0x7F3A9C>", "<Order object at #>"),
        ("feed dead beef", "feed dead beef"),
        ("\n  first 1\nsecond 2", "first #"),
        ("", ""),
        ("x" * 1000, "x" * 200),
    ],
)
def test_numbers_and_ids_do_not_distinguish_errors(message: str, kind: str) -> None:
    assert folded(message) == kind


@pytest.mark.parametrize(
    ("conditions", "matches"),
    [
        ({}, True),
        ({"since": 1_790_000_060_000}, True),
        ({"since": 1_790_000_060_001}, False),
        ({"until": 1_790_000_060_000}, False),
        ({"until": 1_790_000_060_001}, True),
        ({"origins": (TopicChoice("orders"),)}, True),
        ({"origins": (TopicChoice("other"), TopicChoice("orders", (0, 1)))}, True),
        ({"origins": (TopicChoice("orders", (1, 2)),)}, False),
        ({"groups": ("billing", "other")}, True),
        ({"groups": ("other",)}, False),
        ({"error_classes": ("ValueError",)}, True),
        ({"error_classes": ("builtins.ValueError",)}, True),
        ({"error_classes": ("Error",)}, False),
        ({"error_texts": ("CUSTOMER 17",)}, True),
        ({"error_texts": ("no customer #",)}, True),
        ({"error_texts": ("customer 18",)}, False),
        ({"error_texts": ("customer 18", "17")}, True),
        ({"error_texts": ("17",), "groups": ("other",)}, False),
    ],
)
def test_letter_matches_only_if_all_conditions_hold(conditions: dict[str, Any], matches: bool) -> None:
    found = letter(failure_headers(error="no customer 17"))
    assert LetterFilter(**conditions).matches(found) is matches


def test_letter_without_an_origin_matches_no_origin() -> None:
    found = letter((("own", b"x"),))
    assert LetterFilter().matches(found)
    assert not LetterFilter(origins=(TopicChoice("orders"),)).matches(found)
    assert not LetterFilter(error_classes=("ValueError",)).matches(found)
