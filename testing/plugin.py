"""The fixtures of pytest: `kafka`, `kafka_module`, `kafka_session`, `kafka_topic`, `kafka_address`, `kafka_factory`,
`kafka_clock`, `kafka_process`, `kafka_cluster`, `schema_registry`.

A project asks for them: `pytest_plugins = ["odradek"]`, or `pytest -p odradek`. This module imports nothing of Odradek
before a test asks for a fixture. A worker of pytest-xdist has a broker of its own. PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from .cluster import KafkaCluster
    from .local import LocalKafka
    from .process import KafkaProcess
    from .remote import Kafka
    from .schema_registry import LocalSchemaRegistry
    from .simulation.program import Simulation

K = TypeVar("K")

_MARKER = """kafka(topics=None, config=None, tls=False, users=None): topics of this test (names, or \
name -> partitions); configs of its broker (name -> value); TLS; users (name -> password)"""
_SIMULATED = """simulated(seeds=1, first=0, nodes=1, configs=None): run this test, which takes the fixture \
`simulation`, once for each seed, in a world with so many brokers (docs/simulation.md)"""
# What only a broker of its own has.
_OWN = {"config", "tls", "users"}
_MARKED = {"topics", *_OWN}
_OF_WORLDS = {"seeds", "first", "nodes", "configs"}
# Fixtures whose broker serves several tests as it is.
_LASTING = ("kafka_module", "kafka_session")
# The Kafkas that a test uses.
_USED = pytest.StashKey[list[Any]]()


class AsInstalled:
    """Finds the modules of Odradek as Python does.

    pytest rewrites the assertions of every module below a plugin, and compiles all of them anew where its caches are
    missing.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """Return the spec of a module of the package; None for others, and for its tests in a clone."""
        package, _, module = name.partition(".")
        is_ours = package == __name__.partition(".")[0] and module and module.partition(".")[0] != "tests"
        return PathFinder.find_spec(name, path, target) if is_ours else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options. pytest calls this as soon as the plugin is there."""
    if AsInstalled not in sys.meta_path:
        sys.meta_path.insert(0, AsInstalled)
    group = parser.getgroup("kafka", "Kafka (odradek)")
    group.addoption(
        "--kafka-address",
        metavar="HOST:PORT",
        help="run the tests against the Kafka at this address, which they share with others: tests that need a broker "
        "of their own are skipped",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", _MARKER)
    config.addinivalue_line("markers", _SIMULATED)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the fixture `simulation` once for each seed of its marker `simulated`."""
    if "simulation" in metafunc.fixturenames:
        given = _simulated(metafunc.definition)
        seeds, first = given.get("seeds", 1), given.get("first", 0)
        if not (isinstance(seeds, int) and isinstance(first, int) and seeds > 0):
            raise pytest.UsageError(f"@pytest.mark.simulated takes numbers, and one seed at least, not {given}")
        metafunc.parametrize("simulation", range(first, first + seeds), indirect=True, ids="seed{}".format)


def _simulated(node: Any) -> dict[str, Any]:
    """Return what the marker of a test says."""
    marker = node.get_closest_marker("simulated")
    if marker is None:
        return {}
    unknown = marker.kwargs.keys() - _OF_WORLDS
    if marker.args or unknown:
        what = sorted(unknown) or marker.args
        raise pytest.UsageError(f"@pytest.mark.simulated takes {sorted(_OF_WORLDS)} by name, not {what}")
    return dict(marker.kwargs)


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """Return a simulated world with brokers: `simulation.run(my_service(simulation.address))`."""
    from .simulation.program import simulate

    given = _simulated(request.node)
    with simulate(request.param, nodes=given.get("nodes", 1), configs=given.get("configs")) as world:
        yield world


def pytest_unconfigure() -> None:
    """Import as before."""
    if AsInstalled in sys.meta_path:
        sys.meta_path.remove(AsInstalled)


@pytest.fixture(scope="session")
def _kafka_of_worker() -> Iterator[Callable[[], LocalKafka]]:  # pyright: ignore[reportUnusedFunction]
    """Return what gives the broker that the tests of this process share. It starts when a first test needs it."""
    from . import broker_log
    from .local import LocalKafka

    running: list[LocalKafka] = []
    # pytest's section of captured logs shows what the broker did.
    broker_log.begin()

    def shared() -> LocalKafka:
        if running and not running[0].is_alive:
            # The test after it has another one.
            running.pop()
            raise pytest.fail.Exception("the broker of an earlier test has died; see that test's report")
        if running and (running[0].has_moved_time or not running[0].can_move):
            # The time of this test is real again, and a clock never goes back. Its address is its own.
            running.pop().close()
        if not running:
            running.append(LocalKafka())
        return running[0]

    yield shared
    for each in running:
        each.close()
    broker_log.end()


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A Kafka without topics, groups, transactional ids and faults. Tests of a process share one broker."""
    marks = _marked(request.node)
    address = request.config.getoption("kafka_address", None)
    own = sorted(marks.keys() & _OWN)
    if own:
        _needs_own_broker(request, f"{', '.join(own)} of the broker")
    if address is not None:
        running: Any = request.getfixturevalue("_kafka_at_address")
        running.reset()
    elif own:
        running = request.getfixturevalue("kafka_factory")(**_how(marks), **marks.get("config", {}))
    else:
        running = request.getfixturevalue("_kafka_of_worker")()
        running.reset()
    _use(request, running, marks)
    yield running
    if address is not None:
        running.reset()
    # A program may look for threads that it has left.
    running._disconnect()  # pyright: ignore[reportPrivateUsage]
    if address is None and running.is_alive:
        running.end_faults()


@pytest.fixture(scope="session")
def _kafka_at_address(request: pytest.FixtureRequest) -> Iterator[Kafka]:  # pyright: ignore[reportUnusedFunction]
    """The Kafka of --kafka-address, which remembers to the end what this run has made."""
    with _remote(str(request.config.getoption("kafka_address"))) as running:
        yield running


@pytest.fixture(scope="module")
def kafka_module(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A Kafka for the tests of a module, which share what is in it."""
    yield from _lasting(request)


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A Kafka for all tests of a process, which share what is in it."""
    yield from _lasting(request)


def _lasting(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    from .local import LocalKafka

    address = request.config.getoption("kafka_address", None)
    with LocalKafka() if address is None else _remote(address) as running:
        yield running


@pytest.fixture
def kafka_address(kafka: Kafka) -> str:
    """The HOST:PORT of `kafka`."""
    return kafka.address


@pytest.fixture
def kafka_topic(kafka: Kafka) -> str:
    """A new topic with one partition, and a name that no other test has."""
    return kafka.create_topic(f"topic-{uuid4().hex[:12]}")


@pytest.fixture
def kafka_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., LocalKafka]]:
    """Return what starts another broker: `kafka_factory(log_retention_ms=1000)`. It ends with the test.

    `tls=True` and `users={"alice": "secret"}` are those of the marker, all others configs.
    """
    from .local import LocalKafka

    _needs_own_broker(request, "kafka_factory starts brokers")
    running = ExitStack()

    def start(*, tls: bool = False, users: Mapping[str, str] | None = None, **configs: object) -> LocalKafka:
        texts = {name.replace("_", "."): value for name, value in configs.items()}
        started = running.enter_context(LocalKafka(texts, tls=tls, users=users))
        request.node.stash.setdefault(_USED, []).append(started)
        return started

    with running:
        yield start


@pytest.fixture
def kafka_clock(request: pytest.FixtureRequest, kafka: Kafka) -> LocalKafka:
    """The clock of the broker of `kafka`: `kafka_clock.advance(hours=7)`. Clients' clocks stay real."""
    from .local import LocalKafka

    _needs_own_broker(request, "kafka_clock moves the broker's clock")
    assert isinstance(kafka, LocalKafka)
    return kafka


@pytest.fixture
def kafka_process(request: pytest.FixtureRequest) -> Iterator[KafkaProcess]:
    """A broker in a process of its own: `kill`, `pause`, `restart`."""
    from .process import KafkaProcess

    _needs_own_broker(request, "kafka_process starts a broker")
    with _as_marked(request, KafkaProcess) as running:
        yield running


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three brokers without ZooKeeper: `move_leader`, `kill`, `isolate`, `heal`, `restart`, `move_coordinator`."""
    from .cluster import KafkaCluster

    _needs_own_broker(request, "kafka_cluster starts brokers")
    with _as_marked(request, KafkaCluster) as running:
        yield running


@pytest.fixture
def schema_registry(kafka: Kafka) -> Iterator[LocalSchemaRegistry]:
    """A schema registry over `kafka`, without subjects."""
    from .schema_registry import LocalSchemaRegistry

    with LocalSchemaRegistry(kafka) as running:
        yield running


# -- The report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Add what its brokers saw to the report of a failed test."""
    report = yield
    # After its teardown a broker that has been stopped looks like one that has died.
    if report.failed and call.when != "teardown":
        for kafka in [*item.stash.get(_USED, list[Any]()), *_lasting_of(item)]:
            from .report import sections

            for title, text in sections(kafka):
                _add_section(report, title, text)
        _add_log(item, report)
    return report


def _lasting_of(item: pytest.Item) -> list[Any]:
    given: Mapping[str, Any] = getattr(item, "funcargs", {})
    return [given[name] for name in _LASTING if name in given]


def _add_section(report: Any, title: str, text: str) -> None:
    """Add a section to what pytest prints, and to what it writes into JUnit files."""
    if hasattr(report.longrepr, "addsection"):
        report.longrepr.addsection(title, text)
    else:
        report.sections.append((title, text))


def _add_log(item: pytest.Item, report: Any) -> None:
    """Add the brokers' log to JUnit files, which by default have none. On the terminal pytest shows it anyway."""
    if item.stash.get(_USED, None) and item.config.getoption("xmlpath", None) and report.caplog:
        _add_section(report, "Kafka's log", report.caplog)


def _use(request: pytest.FixtureRequest, running: Any, marks: Mapping[str, Any]) -> None:
    """Note a Kafka of the test for its report, and create the topics that the test's markers name."""
    request.node.stash.setdefault(_USED, []).append(running)
    for name, partitions in _topics(marks).items():
        running.create_topic(name, partitions)


@contextmanager
def _as_marked(request: pytest.FixtureRequest, kind: Callable[..., AbstractContextManager[K]]) -> Generator[K]:
    """Run brokers of the test's own, as its markers say."""
    marks = _marked(request.node)
    with kind(marks.get("config"), **_how(marks)) as running:  # its end checks the faults
        _use(request, running, marks)
        yield running


def _needs_own_broker(request: pytest.FixtureRequest, why: str) -> None:
    address = request.config.getoption("kafka_address", None)
    if address is not None:
        pytest.skip(f"{why}: not at the Kafka of --kafka-address {address}")


@contextmanager
def _remote(address: str) -> Generator[Kafka]:
    """Connect to the Kafka of --kafka-address. At the end go the topics and groups that were made by it."""
    from .local import LocalKafka
    from .remote import Kafka

    class SharedKafka(Kafka):
        """The Kafka of --kafka-address: what only a broker of this process can do skips the test."""

        def __getattr__(self, name: str) -> Any:
            if hasattr(LocalKafka, name):
                pytest.skip(f"kafka.{name} needs a broker of its own: not at the Kafka of --kafka-address {address}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    running = SharedKafka(address)
    try:
        running.reset()
        yield running
        running.reset()
    finally:
        running.close()


def _marked(node: pytest.Item) -> dict[str, Any]:
    """Return what the test's markers say; the nearest one counts."""
    marks: dict[str, Any] = {}
    for mark in node.iter_markers("kafka"):
        unknown = mark.kwargs.keys() - _MARKED
        if mark.args or unknown:
            raise pytest.UsageError(f"@pytest.mark.kafka takes {sorted(_MARKED)}, not {sorted(unknown) or mark.args}")
        marks = {**mark.kwargs, **marks}
    return marks


def _how(marks: Mapping[str, Any]) -> dict[str, Any]:
    """Return what markers say of a broker beside its configs."""
    return {name: value for name, value in marks.items() if name in _OWN - {"config"}}


def _topics(marks: Mapping[str, Any]) -> dict[str, int]:
    given = marks.get("topics") or ()
    if isinstance(given, str):
        return {given: 1}
    return {**given} if isinstance(given, Mapping) else dict.fromkeys(given, 1)
