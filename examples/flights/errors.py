"""What ends the demo early, told in a line."""


class DemoError(Exception):
    """The demo cannot go on; the text says why."""
