"""For all tests: on which event loop an asynchronous test runs.

The fixtures `config`, `broker` and `raw` are a broker in the test's own loop and a connection to it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop
from hypothesis import HealthCheck, settings
from odradek.broker import Broker, BrokerConfig
from odradek.tests.support.brokers.process import FEW_PARTITIONS
from odradek.tests.support.clients.java import require_spark_java
from odradek.tests.support.clients.raw import Raw
from odradek.tests.support.seeds import IS_SOAK

if TYPE_CHECKING:
    from odradek.tests.support.clusters.zookeeper import ZooKeeperProcess
    from pyspark.sql import SparkSession

# How long an example takes to be made or tried says more of the machine, and of who else is at it, than of the code.
# `make soak` tries more of them.
EXAMPLES = int(os.environ.get("ODRADEK_EXAMPLES", "25"))
settings.register_profile("odradek", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("odradek")

# A shell ignores Ctrl-C for what it runs in the background, and its children do so, too: the tests that press it would
# wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class DebugLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop in debug mode, which finds more."""

    def __init__(self) -> None:
        super().__init__()
        # A slow step on a busy machine is no fault of the code under test.
        self.slow_callback_duration = 10.0

    def set_debug(self, enabled: bool) -> None:
        super().set_debug(True)  # pytest-asyncio would switch the mode off


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "debug": DebugLoop,
    "uvloop": uvloop.new_event_loop,
}
# Debug mode costs three times the CPU time.
OWN = "debug" if IS_SOAK else "asyncio"
LOOPS_OF = {
    # What depends on the loop: transports and protocols.
    "broker/network": (OWN, "uvloop"),
    "broker/network/access": ("asyncio",),
    "broker/network/test_dispatcher": ("uvloop",),
    "client/core": (OWN, "uvloop"),
    "web": (OWN, "uvloop"),
    # Time and memory are those of the loop that `odradek serve` runs on.
    "adversity": ("uvloop",),
    "soak": ("uvloop",),
    # `odradek serve` runs on uvloop, which takes a tenth less of a test's time, too.
    "broker": ("uvloop",),
    # It counts objects of Python, of which uvloop has others.
    "broker/topics/test_flusher": ("asyncio",),
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the loops of a test: asyncio's own, unless its room, or its file, says otherwise."""
    path = item.path.relative_to(Path(__file__).parent)
    rooms = (path.with_suffix(""), *path.parents)
    names = next((LOOPS_OF[str(room)] for room in rooms if str(room) in LOOPS_OF), ("asyncio",))
    return {name: LOOPS[name] for name in names}


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Keep Python's collector away from the 600,000 objects that are imported and collected: they stay.

    It looked at them again and again, for 7 s in each worker, and for half a second at each `gc.collect()` of a test.

    In a new clone the first worker collects before the others: compiling everything takes as long as all else, and they
    read what it has compiled.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    # All workers of a run have their folders in one, which pytest removes.
    factory: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    is_compiled = factory.getbasetemp().parent / "compiled"
    until_s = time.monotonic() + 300
    while worker not in ("", "gw0") and not is_compiled.exists() and time.monotonic() < until_s:
        time.sleep(0.1)
    gc.disable()
    try:
        return (yield)
    finally:
        if worker == "gw0":
            is_compiled.touch()
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return three workers for two processors: many tests wait for processes that they start, and each collects all."""
    return ((os.cpu_count() or 1) * 3 + 1) // 2


# Nobody cuts the power of this machine, and thousands of brokers wait for a dozen fsyncs each: 20 ms a test. What is
# forced to disk is tested with disks of the tests' own, which see each fsync. Like fsync, fstat rejects a closed file.
os.fsync = os.fstat  # type: ignore[assignment]

# A loop that has ended swallows the signals that it still handles, so a later test would wait for its Ctrl-C for ever.
HANDLERS = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Fail a test after which the process handles signals, or logs, otherwise than before."""
    yield
    changed = {number: signal.signal(number, handler) for number, handler in HANDLERS.items()}
    assert changed == HANDLERS
    level = logging.root.level
    logging.root.setLevel(logging.WARNING)
    # A command that ran in this process has set it, as it may in its own.
    logging.getLogger("odradek").setLevel(logging.NOTSET)
    assert level == logging.WARNING


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """Return a directory on a file system with a disk: `tmp_path` may be in memory (see the Makefile)."""
    with tempfile.TemporaryDirectory(prefix="odradek-", dir="/var/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yield a broker in a thread, with quick groups, for tables of cases that leave nothing: a start takes 50 ms."""
    data = str(tmp_path_factory.mktemp("shared"))
    listeners = ("PLAINTEXT://127.0.0.1:0",)
    with Broker(BrokerConfig(listeners=listeners, log_dirs=(data,), **FEW_PARTITIONS)) as broker:
        yield broker


@pytest.fixture
async def shared(shared_broker: Broker) -> AsyncIterator[Raw]:
    async with await Raw.connect(shared_broker.address) as raw:
        yield raw


@pytest.fixture
def config(tmp_path: Path) -> BrokerConfig:
    """Return a config with a free port, a directory of its own, and groups that do not wait for more members."""
    return BrokerConfig(
        listeners=("PLAINTEXT://127.0.0.1:0",),
        log_dirs=(str(tmp_path / "data"),),
        group_initial_rebalance_delay_ms=0,
        **FEW_PARTITIONS,
    )


@pytest.fixture
async def broker(config: BrokerConfig) -> AsyncIterator[Broker]:
    async with Broker(config) as each:
        yield each


@pytest.fixture
async def raw(broker: Broker) -> AsyncIterator[Raw]:
    async with await Raw.connect(broker.address) as each:
        yield each


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A real ZooKeeper, which the tests of a process share: each has a tree of its own in it."""
    from odradek.tests.support.clusters.zookeeper import why_missing, zookeeper

    if why_missing():
        pytest.skip(why_missing())
    with zookeeper(tmp_path_factory.mktemp("zookeeper")) as process:
        yield process


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session of Spark for all tests of a process: the start of its JVM costs more than most of them.

    Nobody registers the source: Spark finds it by itself.
    """
    pytest.importorskip("pyspark", reason="the Spark source needs pyspark (extra `spark`)")
    require_spark_java()
    from odradek.tests.support.spark.spark_topics import session

    started = session(str(tmp_path_factory.mktemp("spark")))
    yield started
    started.stop()
