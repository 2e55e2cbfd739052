"""`odradek.testing.simulate(seed)`: a user's own asyncio service with a broker, or several, in a simulated world.

with simulate(7) as world:
    world.run(my_service(world.address))

The service runs in virtual time: a day of waiting passes in a second. What is not in the world is refused by name
(CannotBeSimulated): TLS, subprocesses, signals, descriptors. Threads of its own and other event loops are not seen by
the world: they run in real time, and must not be used.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Self, TypeVar

from .cluster import Cluster, Node
from .process import Process
from .world import World

R = TypeVar("R")
_START_S = 60.0


class Simulation:
    """A world with brokers that serve. Use it by `with`."""

    def __init__(self, seed: int, nodes: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """`configs`: those of the brokers, by Kafka's names."""
        self.seed = seed
        self.world = World(seed)
        self.cluster = Cluster(self.world, nodes, configs)
        self._program = self.process("10.1.0.1")

    def __enter__(self) -> Self:
        self.cluster.__enter__()
        self._until_served(*self.cluster.nodes.values())
        return self

    def _until_served(self, *nodes: Node) -> None:
        self.world.run_until(lambda: all(each.serves for each in nodes), _START_S)

    def __exit__(self, *raised: Any) -> None:
        self.cluster.__exit__(*raised)

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
        """Run a coroutine of the service to its end. Raises TooLate after so many virtual seconds, NothingLeft."""
        return self._program.run(coro, within_s)

    def kill(self, node: int = 1) -> None:
        """End a broker by SIGKILL."""
        self.cluster.nodes[node].kill()

    def cut_power(self, node: int = 1) -> None:
        """Cut the power of a broker's machine: what no fsync has covered may be lost."""
        self.cluster.nodes[node].cut_power(self.seed)

    def start(self, node: int = 1) -> None:
        """Start a broker again, and run the world until it serves. Not in the service itself."""
        self.cluster.nodes[node].boot()
        self._until_served(self.cluster.nodes[node])


def simulate(seed: int, *, nodes: int = 1, configs: Mapping[str, str] | None = None) -> Simulation:
    """Return a world in which this seed decides what happens when; use it by `with`."""
    return Simulation(seed, nodes, configs)
