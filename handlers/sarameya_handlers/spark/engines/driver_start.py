"""Start and stop of the Spark that the options name. Never blocks the event loop, and can be cancelled at any point."""

from __future__ import annotations

import logging
import subprocess
from functools import partial

import trio

from sarameya import HandlerError
from sarameya_handlers.spark.engines.classic import ClassicDriver
from sarameya_handlers.spark.engines.connect import ConnectDriver
from sarameya_handlers.spark.engines.jvm import spark_jvm
from sarameya_handlers.spark.engines.pool import Pool
from sarameya_handlers.spark.engines.requirements import require_connect, require_packages
from sarameya_handlers.spark.errors import SparkGoneError, SparkStartError
from sarameya_handlers.spark.options import SparkOptions

logger = logging.getLogger("sarameya.spark")

CONNECT_TIMEOUT = 30.0
"""Seconds for a Spark Connect server to open a session."""
END_TIMEOUT = 10.0
"""Seconds to clean up after a Spark that was killed."""


async def start(options: SparkOptions) -> Pool:
    """Start Spark: a JVM of ours, or a first session on a server.

    Raises:
        HandlerError: A person must change something first.
        SparkStartError: Spark has not started.
        SparkGoneError: A server does not respond.
    """
    if options.is_connect:
        return await _connect(options)
    running = await start_jvm(options)
    return Pool(ClassicDriver(running.session, running), options.max_jobs)


async def stop(pool: Pool, at_work: bool = True) -> None:
    """Stop Spark. If it hangs, kill it after its driver's `stop_timeout`, and leave it behind END_TIMEOUT later.

    Args:
        pool: Its pool.
        at_work: False to leave sessions that are in use to the works that use them.
    """
    bound = pool.driver.stop_timeout + END_TIMEOUT
    with trio.CancelScope(shield=True), trio.move_on_after(bound) as timeout:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_kill_at_last, pool)
            await trio.to_thread.run_sync(partial(pool.stop, at_work=at_work), abandon_on_cancel=True)
            nursery.cancel_scope.cancel()
    if timeout.cancelled_caught:
        logger.error("Spark has not stopped within %.0f s and is left behind", bound)


async def start_jvm(options: SparkOptions, environment: dict[str, str] | None = None) -> spark_jvm.Jvm:
    """Start classic Spark in a JVM of ours. If cancelled, no JVM is left behind."""
    running: spark_jvm.Jvm | None = None
    failure: HandlerError | SparkStartError | None = None
    launched: list[subprocess.Popen[bytes]] = []
    begin = partial(
        spark_jvm.start,
        options,
        environment=environment,
        launched=launched.append,
        check=trio.from_thread.check_cancelled,
    )
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_kill_when_cancelled, launched)
            try:
                # Not abandoned: a JVM without an owner would stay.
                running = await trio.to_thread.run_sync(begin)
            except (HandlerError, SparkStartError) as error:
                failure = error
            launched.clear()
            nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()
    except BaseException:
        if running is not None:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(running.stop)
        raise
    if failure is not None:
        raise failure
    assert running is not None
    return running


async def _connect(options: SparkOptions) -> Pool:
    await trio.to_thread.run_sync(require_packages)
    await trio.to_thread.run_sync(require_connect)
    pool = Pool(ConnectDriver.at(options.master, options.settings), options.max_jobs)
    try:
        with trio.fail_after(CONNECT_TIMEOUT):
            await trio.to_thread.run_sync(pool.open_first, abandon_on_cancel=True)
    except BaseException as error:
        pool.stop_nowait()
        pool.driver.kill()
        if isinstance(error, trio.TooSlowError):
            raise SparkGoneError(f"{pool.driver.name} does not answer", begun=False) from None
        raise
    return pool


async def _kill_when_cancelled(launched: list[subprocess.Popen[bytes]]) -> None:
    try:
        await trio.sleep_forever()
    finally:
        for process in launched:
            process.kill()


async def _kill_at_last(pool: Pool) -> None:
    await trio.sleep(pool.driver.stop_timeout)
    logger.error("Spark does not stop within %.0f s, and is made to", pool.driver.stop_timeout)
    pool.driver.kill()
