"""The error of the demo."""


class DemoError(Exception):
    """The demo cannot continue. The text is one line with the reason."""
