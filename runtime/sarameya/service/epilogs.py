"""What stands below a command's help: examples of it, and its exit codes. Pure."""

from __future__ import annotations


def epilog(*examples: str, exit_codes: str = "") -> str:
    """Examples, each a whole command line, which a test has parsed; `exit_codes` where they are the command's own."""
    lines = ["example:" if len(examples) == 1 else "examples:", *(f"  {example}" for example in examples)]
    return "\n".join([*lines, "", f"exit codes: {exit_codes}"] if exit_codes else lines)
