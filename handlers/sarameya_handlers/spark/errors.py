"""What goes wrong with Spark, and how to say it in a line."""

from __future__ import annotations

from sarameya import HandlerError


class LandingError(HandlerError):
    """A landing failed: nothing of it is marked, and the next owner of the partition lands it again."""


def cause_of(error: BaseException) -> str:
    """One line about an error of Spark, whose own text is often a hundred lines of Java stack."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "An error occurred while calling"))]
    causes = [line.removeprefix("Caused by: ") for line in said if line.startswith("Caused by: ")]
    told = [line.removeprefix(": ") for line in said[:1]] + causes[-1:]
    return ": ".join([type(error).__name__, "; ".join(told) or str(error)])
