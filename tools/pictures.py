"""Makes the picture of the status page in docs/images: `python -m tools.pictures` (needs Spark, Chromium and a minute).

A service lands four partitions of an embedded broker in a Parquet directory, and a browser takes a screenshot.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.browser.chromium import chromium
from tests.integration.browser.service import running

PICTURE = Path(__file__).parents[1] / "docs/images/status-page.png"
_SECONDS = 45.0
_OPTIONS = """
[handler.options]
table = "parquet:landing/orders"
max_age = 4.0
spark.master = "local[2]"
"""


async def main(executable: str) -> None:
    with tempfile.TemporaryDirectory() as directory, chromium(executable) as browser:
        async with EmbeddedCluster(topics={"orders": 4}) as cluster, trio.open_nursery() as nursery:
            nursery.start_soon(_produce, cluster)
            async with (
                running(Path(directory), cluster, handler="spark", config=_OPTIONS) as service,
                browser.page(service.url, viewport={"width": 1480, "height": 830}) as page,
            ):
                await page.until_ready(60)
                await trio.sleep(_SECONDS)
                await page.do(lambda shown: shown.screenshot(path=str(PICTURE)))
            nursery.cancel_scope.cancel()


async def _produce(cluster: EmbeddedCluster) -> None:
    number = 0
    while True:
        for partition in range(4):
            for _ in range(20 + 10 * partition):
                cluster.produce("orders", partition, b'{"order": %d}' % number)
                number += 1
        await trio.sleep(0.2)


if __name__ == "__main__":
    found = shutil.which("chromium")
    if found is None:
        sys.exit("chromium is not installed: install Debian's package `chromium`")
    trio.run(main, found)
