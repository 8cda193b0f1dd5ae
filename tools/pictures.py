"""The picture of the status page in docs/images: `python -m tools.pictures` (needs Spark and Chromium; a minute).

A service lands four partitions of an embedded broker in a Parquet directory, and the page is photographed.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import trio

from sarameya.embedded import EmbeddedCluster
from tests.integration.browser.chromium import chromium

PICTURE = Path(__file__).parents[1] / "docs/images/status-page.png"
_SECONDS = 45.0
_APP = """
bootstrap_servers = ["{server}"]
group = "orders-landing"
topics = ["orders"]
[config]
offset_initial = "oldest"
[handler]
name = "spark"
[handler.options]
table = "parquet:landing/orders"
max_age = 4.0
spark = {{ master = "local[2]" }}
"""


async def main(executable: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory, chromium(executable) as browser:
        async with EmbeddedCluster(topics={"orders": 4}) as cluster, trio.open_nursery() as nursery:
            await trio.Path(directory, "app.toml").write_text(_APP.format(server=cluster.bootstrap_servers[0]))
            command = [sys.executable, "-m", "sarameya.service", "run", "app.toml", "--http", f"127.0.0.1:{port}"]
            service = await trio.lowlevel.open_process(command, cwd=directory, stderr=subprocess.DEVNULL)
            nursery.start_soon(_produce, cluster)
            await trio.sleep(10)  # until it listens
            size = {"viewport": {"width": 1480, "height": 830}, "device_scale_factor": 1.0}
            async with browser.page(f"http://127.0.0.1:{port}/", **size) as page:
                await page.until_ready(60)
                await trio.sleep(_SECONDS)
                await page.do(lambda shown: shown.screenshot(path=str(PICTURE)))
            nursery.cancel_scope.cancel()
            service.terminate()
            with trio.CancelScope(shield=True):
                await service.wait()


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
        sys.exit("there is no chromium: install it")
    trio.run(main, found)
