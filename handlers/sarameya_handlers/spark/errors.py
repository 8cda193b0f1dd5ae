"""What goes wrong with Spark, and how to say it in a line."""

from __future__ import annotations

from sarameya import SarameyaError


class LandingError(SarameyaError):
    """A landing failed: nothing of it is marked, and the next owner of the partition lands it again."""

    retriable = True


def cause_of(error: BaseException) -> str:
    """One line about an error of Spark, whose own text is often a hundred lines of Java stack."""
    if isinstance(error, LandingError):
        return str(error)
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  an error of Java asks a JVM for its text, which may be gone
        return f"{type(error).__name__} (its text was lost with Spark's JVM)"
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(("at ", "An error occurred while calling"))]
    causes = [line.removeprefix("Caused by: ") for line in said if line.startswith("Caused by: ")]
    told = [line.removeprefix(": ") for line in said[:1]] + causes[-1:]
    return ": ".join([type(error).__name__, "; ".join(told) or text])
