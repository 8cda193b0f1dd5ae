"""The one place that says which version this is; packaging reads it."""

__version__ = "0.1.0"
