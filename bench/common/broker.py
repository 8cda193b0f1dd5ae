"""The Kafka broker of a bench: started as the integration tests start theirs, in a temporary directory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.real_kafka import RealKafka


@contextmanager
def running_kafka(*, proxied: bool = False) -> Iterator[RealKafka]:
    """Run one broker until the block ends. Its files are removed then.

    Args:
        proxied: Give the broker a second listener, for clients behind a proxy (see `RealKafka`).
    """
    with (
        tempfile.TemporaryDirectory(prefix="sarameya-bench-") as directory,
        RealKafka(Path(directory, "kafka"), proxied=proxied) as kafka,
    ):
        yield kafka
