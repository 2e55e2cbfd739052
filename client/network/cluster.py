"""The client's way into a cluster: addresses, metadata, one connection a broker and purpose, coordinators.

A `Cluster` starts from the bootstrap list, learns the brokers from Metadata, and goes back to the bootstrap list when
none of them answers any more (KIP-899). Metadata is asked for when somebody needs a topic, when a broker says that it
is not the leader, and every `metadata_max_age_ms`; questions that come at the same time share one request.
Connections are opened on first use, one per broker and purpose: a fetch that waits for data must not hold up the
heartbeat behind it.

Time-outs and pauses come from `ClusterOptions`, so tests can shrink them. Stop with `close()`, which may be called
twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ...protocol.schema import Message
from ..errors import ClientStopped, ConnectionLost, InvalidOption, NoBrokerReachable, RequestTimedOut, UnknownTopic
from ..metadata import NO_LEADER, ClusterView, Node, TopicInfo
from ..record import TopicPartition
from .addresses import Address, bootstrap_addresses
from .backoff import Backoff
from .connection import Connection

R = TypeVar("R", bound=Message)
T = TypeVar("T")

# What a connection is for. Brokers answer a connection in order, so what waits long has one of its own.
GENERAL = "general"
FETCH = "fetch"
COORDINATION = "coordination"

GROUP = 0  # key types of FindCoordinator
TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Kafka's options that concern the connection to a cluster, in milliseconds."""

    bootstrap_servers: str | Sequence[str]
    client_id: str = "odradek"
    request_timeout_ms: float = 30_000
    connect_timeout_ms: float = 10_000
    retry_backoff_ms: float = 100
    retry_backoff_max_ms: float = 1_000
    metadata_max_age_ms: float = 300_000
    # How long a call may wait in all, retries included (Kafka's default.api.timeout.ms and max.block.ms).
    default_api_timeout_ms: float = 60_000
    allow_auto_create_topics: bool = True

    def __post_init__(self) -> None:
        bootstrap_addresses(self.bootstrap_servers)
        for name in ("request_timeout_ms", "connect_timeout_ms", "metadata_max_age_ms", "default_api_timeout_ms"):
            if not getattr(self, name) > 0:
                raise InvalidOption(f"{name} must be above 0, not {getattr(self, name)}")


class Cluster:
    """Connections to and knowledge of one cluster. Used from one event loop."""

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options
        self.view = ClusterView()
        self.backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms)
        self._bootstrap = bootstrap_addresses(options.bootstrap_servers)
        # Invariant: at most one entry for a broker (or bootstrap address) and purpose; a closed one is replaced on
        # the next use.
        self._connections: dict[tuple[int | Address, str], Connection] = {}
        self._opening: dict[tuple[int | Address, str], asyncio.Task[Connection]] = {}
        self._topics: set[str] = set()
        self._refresh: asyncio.Task[None] | None = None
        self._refresh_failures = 0
        # A look at topics that are not there yet, and how many there were in a row.
        self._next_look: asyncio.TimerHandle | None = None
        self._looks = 0
        self._listeners: list[Callable[[ClusterView], None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    # -- life --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reach a broker and learn the cluster. Raises NoBrokerReachable at once where none answers."""
        await self._update(frozenset(self._topics))
        self.spawn(self._keep_fresh(), "metadata refresh")

    async def close(self) -> None:
        """Stop the tasks, then close the connections."""
        self._closed = True
        if self._next_look is not None:
            self._next_look.cancel()
        tasks = [*self._tasks, *self._opening.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            await connection.close()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` beside everything else until it ends or the cluster is closed."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(self.options.metadata_max_age_ms / 1000)
            self.refresh_soon()

    # -- metadata ----------------------------------------------------------------------------------

    def listen(self, told: Callable[[ClusterView], None]) -> None:
        """Have `told` called with every new view."""
        self._listeners.append(told)

    def watch(self, topics: Collection[str]) -> None:
        """Keep metadata of these topics from now on, besides those watched already."""
        self._topics.update(topics)

    def forget(self, topics: Collection[str]) -> None:
        """Keep metadata of these topics no longer."""
        self._topics.difference_update(topics)

    async def topic(self, name: str, *, timeout_ms: float | None = None) -> TopicInfo:
        """A topic with at least one led partition; waits for one that is just being made.

        Raises UnknownTopic when the time is over (`default_api_timeout_ms` if none is given) or the name can never be
        one.
        """
        info = self.view.topics.get(name)
        if info is not None and info.partitions:
            return info
        self.watch((name,))
        limit_ms = self.options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                return await self._find_topic(name)
        except TimeoutError:
            self.forget((name,))
            code = self.view.errors.get(name, ErrorCode.LEADER_NOT_AVAILABLE)
            raise UnknownTopic(
                f"topic {name!r} was not there within {limit_ms:g} ms ({code.name}): create it first?"
            ) from None

    async def _find_topic(self, name: str) -> TopicInfo:
        failures = 0
        while True:
            await self.refresh()
            info = self.view.topics.get(name)
            if info is not None and any(partition.leader != NO_LEADER for partition in info.partitions):
                return info
            code = self.view.errors.get(name)
            if code is not None and not code.retriable:
                self.forget((name,))
                raise KafkaError(code, f"topic {name!r}: {code.text}")
            failures += 1
            await asyncio.sleep(self.backoff.pause_ms(failures) / 1000)

    async def refresh(self) -> None:
        """Ask for the watched topics anew, or join the request that is under way. Raises what the request raises."""
        if self._refresh is None or self._refresh.done():
            self._refresh = self.spawn(self._update(frozenset(self._topics)), "metadata")
        running = self._refresh
        await asyncio.shield(running)

    def refresh_soon(self) -> None:
        """Ask for the watched topics anew without waiting for it; after failures, with a growing pause in front."""
        if self._closed or (self._refresh is not None and not self._refresh.done()):
            return
        self._refresh = self.spawn(self._update_patiently(), "metadata")

    async def _update_patiently(self) -> None:
        if self._refresh_failures:
            await asyncio.sleep(self.backoff.pause_ms(self._refresh_failures) / 1000)
        try:
            await self._update(frozenset(self._topics))
        except KafkaError:
            # Not swallowed: whoever needs the metadata sees the old view, asks again, and runs into its own time-out.
            self._refresh_failures += 1
        else:
            self._refresh_failures = 0

    async def _update(self, topics: Collection[str] | None) -> None:
        """One Metadata request: of `topics`, or of all there are (None)."""
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in sorted(topics)]
        question = MetadataRequest(topics=named, allow_auto_topic_creation=self.options.allow_auto_create_topics)
        answer = await self.ask_any(question, MetadataResponse)
        if answer.error_code:
            raise KafkaError(ErrorCode.of(answer.error_code), "Metadata was refused")
        self.view = self.view.updated(answer, whole=topics is None)
        self._look_again_for_missing()
        for told in self._listeners:
            told(self.view)

    def _look_again_for_missing(self) -> None:
        """A watched topic that is just being made, or will be, is worth a look once a second."""
        if self._next_look is not None:
            self._next_look.cancel()
        if any(self.view.errors.get(topic, ErrorCode.NONE).retriable for topic in self._topics):
            self._looks += 1
            pause = self.backoff.pause_ms(self._looks) / 1000
            self._next_look = asyncio.get_running_loop().call_later(pause, self.refresh_soon)
        else:
            self._next_look, self._looks = None, 0

    async def all_topics(self) -> ClusterView:
        """A view with every topic of the cluster."""
        await self._update(None)
        return self.view

    # -- connections -------------------------------------------------------------------------------

    def ready(self, node_id: int, purpose: str = GENERAL) -> Connection | None:
        """The open connection to a broker, or None."""
        connection = self._connections.get((node_id, purpose))
        return None if connection is None or connection.closed else connection

    async def connection(self, node_id: int, purpose: str = GENERAL) -> Connection:
        """The connection to a broker, opened where there is none. Raises ConnectionLost."""
        node = self.view.nodes.get(node_id)
        if node is None:
            raise ConnectionLost(f"broker {node_id} is not in the cluster's metadata")
        return await self._connect(node_id, (node.host, node.port), purpose)

    async def _connect(self, who: int | Address, address: Address, purpose: str) -> Connection:
        if self._closed:
            raise ClientStopped("this client was stopped")
        key = (who, purpose)
        known = self._connections.get(key)
        if (
            known is not None
            and not known.closed
            and (isinstance(who, tuple) or known.address == f"{address[0]}:{address[1]}")
        ):
            return known
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = asyncio.create_task(self._open(key, address), name=f"connect {address}")
            opening.add_done_callback(lambda task: self._opened(key, task))
        return await asyncio.shield(opening)

    def _opened(self, key: tuple[int | Address, str], task: asyncio.Task[Connection]) -> None:
        del self._opening[key]
        if not task.cancelled():
            task.exception()  # seen, also where all who waited for it were cancelled

    async def _open(self, key: tuple[int | Address, str], address: Address) -> Connection:
        options = self.options
        replaced = self._connections.pop(key, None)
        if replaced is not None:
            await replaced.close()
        connection = await Connection.open(
            address[0],
            address[1],
            client_id=options.client_id,
            request_timeout_ms=options.request_timeout_ms,
            connect_timeout_ms=options.connect_timeout_ms,
        )
        self._connections[key] = connection
        return connection

    async def any_connection(self) -> Connection:
        """A connection to some broker.

        An open one, else to a known broker, else to a bootstrap address. Raises NoBrokerReachable.
        """
        usable = [c for (_, purpose), c in self._connections.items() if purpose == GENERAL and not c.closed]
        if usable:
            return random.choice(usable)
        nodes = list(self.view.nodes.values())
        random.shuffle(nodes)
        candidates: list[tuple[int | Address, Address]] = [(node.node_id, (node.host, node.port)) for node in nodes]
        candidates += [(address, address) for address in self._bootstrap]
        failures: dict[str, str] = {}
        for who, address in candidates:
            try:
                return await self._connect(who, address, GENERAL)
            except (ConnectionLost, RequestTimedOut) as error:
                failures[f"{address[0]}:{address[1]}"] = error.message
        tried = ", ".join(failures)
        raise NoBrokerReachable(
            f"no broker at {tried}: is it running? `odradek serve` starts one ({'; '.join(failures.values())})"
        )

    # -- asking ------------------------------------------------------------------------------------

    async def until_done(self, attempt: Callable[[], Awaitable[T]], *, timeout_ms: float | None = None) -> T:
        """The result of `attempt`, made again after a growing pause while it fails with a retriable KafkaError.

        Once `timeout_ms` (`default_api_timeout_ms` if none) is over, the last error is raised.
        """
        limit_ms = self.options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        loop = asyncio.get_running_loop()
        deadline, failures = loop.time() + limit_ms / 1000, 0
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                failures += 1
                pause = self.backoff.pause_ms(failures) / 1000
                if not error.retriable or loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)

    async def ask_any(self, question: Message, response: type[R]) -> R:
        """One question to any broker.

        Another broker is tried where the connection breaks. Raises NoBrokerReachable, KafkaError.
        """
        attempts = max(1, len(self.view.nodes)) + 1
        while True:
            attempts -= 1
            connection = await self.any_connection()
            try:
                return await connection.request(question, response)
            except (ConnectionLost, RequestTimedOut):
                if not attempts:
                    raise

    async def ask(self, node_id: int, question: Message, response: type[R], purpose: str = GENERAL) -> R:
        """One question to one broker, once."""
        connection = await self.connection(node_id, purpose)
        return await connection.request(question, response)

    async def controller(self) -> int:
        """The node that answers for the cluster (in KRaft any broker, who forwards).

        Raises KafkaError where none is known.
        """
        if self.view.controller_id not in self.view.nodes:
            await self.refresh()
        if self.view.controller_id not in self.view.nodes:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the cluster names no controller")
        return self.view.controller_id

    async def coordinator(self, key: str, key_type: int = GROUP) -> int:
        """The node that coordinates a group or transactional id, asked once.

        Raises KafkaError, retriable while there is none yet.
        """
        connection = await self.any_connection()
        if connection.version_for(FindCoordinatorRequest) >= 4:
            question = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            answer = await connection.request(question, FindCoordinatorResponse)
            found = next((each for each in answer.coordinators if each.key == key), None)
            if found is None:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the broker left {key!r} out of its answer")
            code, text, node = found.error_code, found.error_message, Node(found.node_id, found.host, found.port)
        else:
            answer = await connection.request(
                FindCoordinatorRequest(key=key, key_type=key_type), FindCoordinatorResponse
            )
            code, text, node = answer.error_code, answer.error_message, Node(answer.node_id, answer.host, answer.port)
        if code:
            raise KafkaError(ErrorCode.of(code), text or f"no coordinator for {key!r}")
        if node.node_id not in self.view.nodes:
            await self.refresh()
        return node.node_id

    def leader(self, partition: TopicPartition) -> int:
        """The leader's node id, NO_LEADER where none is known."""
        return self.view.leader(partition)
