"""The text below a command's help: examples, and its exit codes. Pure."""

from __future__ import annotations


def epilog(*examples: str, exit_codes: str = "") -> str:
    """Return the text below a command's help.

    Args:
        examples: Whole command lines. A test parses each of them.
        exit_codes: The meaning of exit codes, if the command has its own.
    """
    lines = ["example:" if len(examples) == 1 else "examples:", *(f"  {example}" for example in examples)]
    return "\n".join([*lines, "", f"exit codes: {exit_codes}"] if exit_codes else lines)
