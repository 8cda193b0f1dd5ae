"""Packages that a format needs."""

from __future__ import annotations

from importlib.util import find_spec

from sarameya.errors import ConfigError
from sarameya.extras import install_command


def require(option: str, value: object, package: str, extra: str) -> None:
    """Check that a package is installed. It is not imported.

    Args:
        option: Name of the option that needs it, for errors.
        value: Value of the option.
        package: Name of the package.
        extra: The extra of Sarameya that has it.

    Raises:
        ConfigError: It is not installed.
    """
    if find_spec(package) is None:
        raise ConfigError(option, value, f"needs the package {package}: {install_command(extra)}")
