"""Numbers in the sentence of a finding. Pure."""

from __future__ import annotations

from sarameya_handlers.landing.links import Link

_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def amount(number: int, noun: str) -> str:
    """Return `1 row`, or `1,200 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def offsets(start: int, stop: int) -> str:
    """Return `offset 7`, or `offsets [7, 12)`."""
    return f"offset {start}" if stop == start + 1 else f"offsets [{start}, {stop})"


def age(seconds: float) -> str:
    """Return `3.5 d`, or `20 s`; never below 0, since clocks differ."""
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{max(seconds, 0.0):.0f} s"


def place_of(link: Link) -> str:
    """Return `link 7, offsets [400, 480)`."""
    return f"link {link.number}, {offsets(link.from_offset, link.to_offset)}"


def records_of(link: Link) -> str:
    """Return `80 records, 2 of them dead letters`."""
    letters = f", {link.dead_letters:,} of them dead letters" if link.dead_letters else ""
    return f"{amount(link.records, 'record')}{letters}"
