"""The Kafka that a bench runs against: one broker, as the integration tests start it, in a directory of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.real_kafka import RealKafka


@contextmanager
def running_kafka(*, proxied: bool = False) -> Iterator[RealKafka]:
    """One broker that answers, until the block ends; then all that it has written is removed.

    With `proxied` it has a second listener, for what stands behind a proxy: see `RealKafka`.
    """
    with (
        tempfile.TemporaryDirectory(prefix="sarameya-bench-") as directory,
        RealKafka(Path(directory, "kafka"), proxied=proxied) as kafka,
    ):
        yield kafka
