"""Version of the package, stated only here; packaging reads it."""

__version__ = "0.1.0"
