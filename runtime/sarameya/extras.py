"""Optional packages, by extra, and the command that installs them."""

from __future__ import annotations

import re
import shlex


def install_command(extra: str) -> str:
    """Return the command that installs the packages of one of Sarameya's extras.

    The command names the packages themselves, so that it works wherever Sarameya itself was installed from.

    Args:
        extra: Name of the extra, as in `pip install '/path/to/clone[spark]'`.
    """
    # Only the message about a missing package needs this module, whose import takes 40 ms.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        declared = requires("sarameya") or []
    except PackageNotFoundError:  # run from a checkout that was not installed
        declared = []
    wanted = [
        shlex.quote(requirement.strip())
        for requirement, _, marker in (line.partition(";") for line in declared)
        if re.fullmatch(rf"""\s*extra\s*==\s*['"]{re.escape(extra)}['"]\s*""", marker)
    ]
    return f"pip install {' '.join(wanted)}" if wanted else f"install the extra `{extra}` of Sarameya"
