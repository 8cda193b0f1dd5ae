"""The pytest plugin of `sarameya.testing`: fixtures for tests that pytest-trio runs. See docs/testing.md.

A separate module: every pytest run in an environment with Sarameya imports it, also for unrelated tests. So the package
is imported only when one of its fixtures is used.

A rule that is easily broken:

- pytest-trio takes a virtual clock only from a test's own arguments; `usefixtures("autojump_clock")` runs in real time
  without a warning. The fixtures therefore check the running clock, and refuse others
  (`tests/testing/test_pytest_plugin.py`).
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from trio.abc import Clock
    from trio.testing import MockClock

    from sarameya import ConsumerGroup, Producer
    from sarameya.testing import ClaimFeed, EmbeddedCluster

__all__ = [
    "claim_feed",
    "sarameya_clock",
    "sarameya_cluster",
    "sarameya_faults",
    "sarameya_group",
    "sarameya_producer",
    "sarameya_tcp_cluster",
]

_MARKER = (
    "sarameya(topics, brokers=1, **options): topics and options of the test's sarameya_cluster, as for EmbeddedCluster"
)

_NO_VIRTUAL_TIME = """\
sarameya_cluster is in memory and needs a mock clock. pytest-trio accepts a clock only as an argument of the test
itself: write `async def {test}(sarameya_clock, ...)` (or autojump_clock). A fixture that requests it has no effect"""

_VIRTUAL_TIME = """\
{fixture} uses TCP and real time, but this test has a mock clock. Write `async def {test}(sarameya_clock, ...)`,
which is a real clock over TCP, or remove the clock"""

_NO_TRIO = """\
{fixture} needs trio, but {test} runs on another event loop: run it with pytest-trio
(pip install pytest-trio, and trio_mode = true or @pytest.mark.trio)"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--sarameya` and `--sarameya-seed`."""
    options = parser.getgroup("sarameya", "Sarameya: Kafka for tests")
    options.addoption(
        "--sarameya",
        choices=("memory", "tcp"),
        default="memory",
        help="how sarameya_cluster is reached: in memory and in virtual time (the default), or over TCP in real time",
    )
    options.addoption(
        "--sarameya-seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the random ids and delays; the same seed gives the same values (default: 0)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker `sarameya`."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def sarameya_clock(request: pytest.FixtureRequest) -> MockClock:
    """Return the clock for `sarameya_cluster`. The test itself has to request it.

    It jumps to the next timer or, with `--sarameya=tcp`, runs in real time.
    """
    from trio.testing import MockClock

    return MockClock(rate=1.0) if _is_tcp(request) else MockClock(autojump_threshold=0)


@pytest.fixture
async def sarameya_cluster(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddedCluster]:
    """Yield an embedded cluster with the topics, brokers and options of the test's marker `sarameya`.

    It is in memory, or as `--sarameya` says. Its methods are the controls: `fail_next`, `freeze_broker`, `move_leader`
    and so on.
    """
    if _is_tcp(request):
        _refuse_jumps(request, "sarameya_cluster")
        async with _cluster(request) as cluster:
            yield cluster
        return
    from trio.testing import MockClock

    from sarameya.testing import threads_in_virtual_time, virtual_wall_clock

    if not isinstance(_clock(request, "sarameya_cluster"), MockClock):
        pytest.fail(_NO_VIRTUAL_TIME.format(test=_function(request)), pytrace=False)
    with threads_in_virtual_time():
        async with _cluster(request, in_memory=True, wall_clock=virtual_wall_clock) as cluster:
            yield cluster


@pytest.fixture
async def sarameya_tcp_cluster(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddedCluster]:
    """Yield a cluster like `sarameya_cluster`, always over TCP, for clients outside of this event loop.

    They connect to its `bootstrap_servers`.
    """
    _refuse_jumps(request, "sarameya_tcp_cluster")
    async with _cluster(request) as cluster:
        yield cluster


@pytest.fixture
async def sarameya_faults(sarameya_cluster: EmbeddedCluster) -> AsyncIterator[EmbeddedCluster]:
    """Yield `sarameya_cluster`; fail the test if one of its faults has not occurred by the end."""
    yield sarameya_cluster
    if armed := sarameya_cluster.faults:
        sarameya_cluster.clear_faults()
        pytest.fail("\n".join(["these faults were set up, but did not occur:", *map(repr, armed)]), pytrace=False)


@pytest.fixture
def sarameya_group(request: pytest.FixtureRequest, sarameya_cluster: EmbeddedCluster) -> Callable[..., ConsumerGroup]:
    """Return a function that creates members: `sarameya_group(group_id="test", config=None, **arguments)`.

    The result is a ConsumerGroup of `sarameya_cluster` with everything that virtual time needs. Without a config it
    reads from the oldest offset on.
    """
    from sarameya import Config, ConsumerGroup
    from sarameya.testing import run_inline, virtual_wall_clock

    rng = random.Random(_seed(request))
    virtual = {} if _is_tcp(request) else {"run_sync": run_inline, "wall_clock": virtual_wall_clock}

    def member(group_id: str = "test", config: Config | None = None, **arguments: Any) -> ConsumerGroup:
        cluster = sarameya_cluster
        given: dict[str, Any] = {"transport": cluster.transport, "rng": rng, **virtual, **arguments}
        config = Config(offset_initial="oldest") if config is None else config
        return ConsumerGroup(cluster.bootstrap_servers, group_id, config, **given)

    return member


@pytest.fixture
def sarameya_producer(request: pytest.FixtureRequest, sarameya_cluster: EmbeddedCluster) -> Callable[..., Producer]:
    """Return a function that creates producers: `sarameya_producer(config=None, **arguments)`.

    The result is a Producer to `sarameya_cluster` with everything that virtual time needs.
    """
    from sarameya import Config, Producer
    from sarameya.testing import virtual_wall_clock

    virtual = {} if _is_tcp(request) else {"wall_clock": virtual_wall_clock}

    def producer(config: Config | None = None, **arguments: Any) -> Producer:
        given: dict[str, Any] = {"transport": sarameya_cluster.transport, **virtual, **arguments}
        return Producer(sarameya_cluster.bootstrap_servers, Config() if config is None else config, **given)

    return producer


@pytest.fixture
def claim_feed(request: pytest.FixtureRequest) -> Callable[..., ClaimFeed]:
    """Return a function that creates feeds for handlers, without a cluster: `claim_feed("orders", 0, at=100)`.

    The arguments are those of ClaimFeed.
    """
    from sarameya.testing import ClaimFeed

    return partial(ClaimFeed, seed=_seed(request))


def _cluster(request: pytest.FixtureRequest, **options: Any) -> EmbeddedCluster:
    from sarameya.testing import EmbeddedCluster

    marker = request.node.get_closest_marker("sarameya")
    args, wanted = (marker.args, marker.kwargs) if marker is not None else ((), {})
    return EmbeddedCluster(*args, **{"seed": _seed(request), **options, **wanted})


def _refuse_jumps(request: pytest.FixtureRequest, fixture: str) -> None:
    from trio.testing import MockClock

    clock = _clock(request, fixture)
    if isinstance(clock, MockClock) and (clock.rate != 1 or clock.autojump_threshold != float("inf")):
        pytest.fail(_VIRTUAL_TIME.format(fixture=fixture, test=_function(request)), pytrace=False)


def _clock(request: pytest.FixtureRequest, fixture: str) -> Clock:
    """Return the clock of the trio run that runs the test."""
    import trio

    try:
        return trio.lowlevel.current_clock()
    except RuntimeError:
        pytest.fail(_NO_TRIO.format(fixture=fixture, test=_function(request)), pytrace=False)


def _function(request: pytest.FixtureRequest) -> str:
    """Return the test's name without its parameters."""
    return str(getattr(request.node, "originalname", None) or request.node.name)


def _is_tcp(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--sarameya") == "tcp")


def _seed(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--sarameya-seed"))
