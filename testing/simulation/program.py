"""`odradek.testing.simulate(seed)`: a user's own asyncio service with a broker, or several, in a simulated world.

with simulate(7) as world:
    world.run(my_service(world.address))

The service runs in virtual time: a day of waiting passes in a second. What is not in the world is refused by name
(CannotBeSimulated): TLS, subprocesses, signals, descriptors. Threads of its own and other event loops are not seen by
the world: they run in real time, and must not be used.
"""

from __future__ import annotations

from asyncio import events
from collections.abc import Coroutine, Mapping
from contextlib import ExitStack
from typing import Any, Self, TypeVar

from ...broker.configs.broker_config import BrokerConfig
from ..errors import Unavailable
from .cluster import Cluster, Node
from .process import Process
from .world import World

R = TypeVar("R")
_START_S = 60.0


class Simulation:
    """A world with brokers that serve. Use it by `with`."""

    def __init__(self, seed: int, nodes: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """`configs`: those of the brokers, by Kafka's names. Raises Unavailable, ConfigError."""
        given: dict[str, object] = {"seed": seed, "nodes": nodes}
        for name, number in given.items():
            if not isinstance(number, int):
                raise Unavailable(f"{name} is a whole number, not {number!r}")
        if nodes < 1:
            raise Unavailable(f"a world has a broker at least, not {nodes}")
        self.seed = seed
        self._nodes = nodes
        self._configs = {name: str(value) for name, value in (configs or {}).items()}
        BrokerConfig.parse(self._configs, strict=True)
        self._until_over = ExitStack()
        self._is_open = False

    def __enter__(self) -> Self:
        self._check_drives("simulate() has loops of its own: use it in a function that is not async")
        self.world = World(self.seed)
        self.cluster = Cluster(self.world, self._nodes, self._configs)
        self._program = self.process("10.1.0.1")
        with ExitStack() as until_over:
            until_over.enter_context(self.cluster)
            self._until_served(*self.cluster.nodes.values())
            self._until_over = until_over.pop_all()
        self._is_open = True
        return self

    def _until_served(self, *nodes: Node) -> None:
        self.world.run_until(lambda: all(each.serves or not each.is_up for each in nodes), _START_S)
        for each in nodes:
            if not each.is_up:
                raise Unavailable(f"broker {each.number} {'; '.join(each.past[-1].errors)}")

    def __exit__(self, *raised: Any) -> None:
        self._is_open = False
        self._until_over.__exit__(*raised)

    def _check_open(self) -> None:
        if not self._is_open:
            raise Unavailable("the world runs inside its `with` block alone")

    @staticmethod
    def _check_drives(why: str) -> None:
        """Raise Unavailable in a coroutine: the world runs it, and cannot go on before it waits."""
        if events._get_running_loop() is not None:
            raise Unavailable(why)

    def _node(self, number: int, *, runs: bool) -> Node:
        self._check_open()
        node = self.cluster.nodes.get(number)
        if node is None:
            raise Unavailable(f"there is no broker {number!r} in this world, which has {self._nodes}, from 1 on")
        if node.is_up is not runs:
            raise Unavailable(f"broker {number} {'does not run: start() it first' if runs else 'runs already'}")
        return node

    @property
    def address(self) -> str:
        """HOST:PORT of the first broker, for `bootstrap_servers`."""
        return self.cluster.addresses.split(",")[0]

    @property
    def addresses(self) -> str:
        """HOST:PORT of every broker, with commas."""
        return self.cluster.addresses

    @property
    def now_s(self) -> float:
        """The virtual time since the begin, in seconds."""
        return self.world.now_s

    def process(self, host: str) -> Process:
        """Return a process of another host: `start` a coroutine in it, `kill`, `pause` and `go_on`."""
        return self.cluster.client(host)

    def run(self, coro: Coroutine[Any, Any, R], within_s: float = 86_400.0) -> R:
        """Run a coroutine of the service to its end. Raises TooLate after so many virtual seconds, NothingLeft.

        Raises Unavailable in a coroutine, and outside of the `with` block.
        """
        try:
            self._check_open()
            self._check_drives("run() runs the world, and what runs in it awaits coroutines instead")
        except Unavailable:
            coro.close()
            raise
        return self._program.run(coro, within_s)

    def kill(self, node: int = 1) -> None:
        """End a broker by SIGKILL."""
        self._node(node, runs=True).kill()

    def cut_power(self, node: int = 1) -> None:
        """Cut the power of a broker's machine: what no fsync has covered may be lost."""
        self._node(node, runs=True).cut_power(self.seed)

    def start(self, node: int = 1) -> None:
        """Start a broker again, and run the world until it serves. Raises Unavailable in the service itself."""
        self._check_drives("start() runs the world until the broker serves: call it outside of what runs in it")
        stopped = self._node(node, runs=False)
        stopped.boot()
        self._until_served(stopped)


def simulate(seed: int, *, nodes: int = 1, configs: Mapping[str, str] | None = None) -> Simulation:
    """Return a world in which this seed decides what happens when; use it by `with`."""
    return Simulation(seed, nodes, configs)
