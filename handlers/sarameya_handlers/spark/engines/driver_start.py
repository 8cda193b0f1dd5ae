"""Start and stop Spark as its options describe it, without blocking the event loop. Can be cancelled at any point."""

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
"""Seconds for `stop` to return after the driver was killed."""


async def start(options: SparkOptions) -> Pool:
    """Start Spark: a JVM of this process, or a first session on a Spark Connect server.

    Raises:
        HandlerError: A person must change something first.
        SparkStartError: Spark has not started.
        SparkGoneError: A server does not respond.
    """
    if options.is_connect:
        return await _connect(options)
    running = await start_jvm(options)
    return Pool(ClassicDriver(running.session, running), options.max_jobs)


async def stop(pool: Pool, include_busy: bool = True) -> None:
    """Stop Spark. If it hangs, kill it after its driver's `stop_timeout`, and abandon it END_TIMEOUT later.

    Args:
        pool: The pool of Spark's sessions.
        include_busy: False to leave open the sessions in use: the work that uses a session closes it.
    """
    limit = pool.driver.stop_timeout + END_TIMEOUT
    with trio.CancelScope(shield=True), trio.move_on_after(limit) as timeout:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_kill_if_it_hangs, pool)
            await trio.to_thread.run_sync(partial(pool.stop, include_busy=include_busy), abandon_on_cancel=True)
            nursery.cancel_scope.cancel()
    if timeout.cancelled_caught:
        logger.error("Spark has not stopped within %.0f s and is abandoned", limit)


async def start_jvm(options: SparkOptions, environment: dict[str, str] | None = None) -> spark_jvm.Jvm:
    """Start classic Spark in a new JVM. If cancelled, end the JVM."""
    running: spark_jvm.Jvm | None = None
    failure: HandlerError | SparkStartError | None = None
    launched: list[subprocess.Popen[bytes]] = []
    start_blocking = partial(
        spark_jvm.start,
        options,
        environment=environment,
        on_launched=launched.append,
        check=trio.from_thread.check_cancelled,
    )
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_kill_when_cancelled, launched)
            try:
                # The thread is not abandoned: nobody would stop its JVM.
                running = await trio.to_thread.run_sync(start_blocking)
            except (HandlerError, SparkStartError) as error:
                failure = error
            launched.clear()  # the JVM is in use, or `spark_jvm.start` has ended it: do not kill it below
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
    """Wait until cancelled, and kill the processes that `launched` has by then."""
    try:
        await trio.sleep_forever()
    finally:
        for process in launched:
            process.kill()


async def _kill_if_it_hangs(pool: Pool) -> None:
    await trio.sleep(pool.driver.stop_timeout)
    logger.error("Spark has not stopped within %.0f s, and is killed", pool.driver.stop_timeout)
    pool.driver.kill()
