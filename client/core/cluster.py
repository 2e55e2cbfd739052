"""A client's way into a cluster: metadata of brokers and topics, and requests to any or to one broker.

A `Cluster` starts from the bootstrap servers, learns the brokers from Metadata, and returns to the bootstrap servers
when no known broker responds (KIP-899), or each says that it is another one (KIP-1242). It requests metadata when
a topic is needed, when a broker says that it does not lead a partition, and every `metadata_max_age_ms`. Calls at the
same time share one request.

All time-outs and pauses come from `ClusterOptions`, so tests can shrink them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, Unpack

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ...protocol.schema import Message
from ..errors import ConnectionLost, NoBrokerReachable, NotConnected, RequestTimedOut, UnknownTopic
from ..record import TopicPartition
from .clock import Backoff, RetryNotice
from .connection import GENERAL, Broker, Connection, ConnectionPool
from .lifetime import end_tasks, shared, to_the_end
from .metadata import NO_LEADER, ClusterView, Node, TopicInfo
from .option_values import Address, bootstrap_addresses
from .options import ClusterOptions, check_numbers, check_topic, security_options
from .randomness import jitter
from .security import SecurityArguments

_log = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)
T = TypeVar("T")


class _Missing(KafkaError):
    """A topic is not there yet, or has no leader."""


class Cluster:
    """Connections to one cluster and what is known of it. Used from one event loop."""

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options
        self.view = ClusterView()
        self.backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms)
        self.retries = RetryNotice()
        self._bootstrap = bootstrap_addresses(options.bootstrap_servers)
        self._connections = ConnectionPool(options)
        # The topics whose metadata is kept.
        self._topics: set[str] = set()
        # Those that calls wait for, with how many do.
        self._awaited: Counter[str] = Counter()
        # Those that the next request may create, where others may not.
        self._sought: set[str] = set()
        # Returns which of the watched topics are needed no longer, after each response. None: all are needed.
        self.unused: Callable[[Collection[str]], Collection[str]] | None = None
        # Whether the metadata of all topics is kept, for patterns.
        self._watches_all = False
        self._refresh: asyncio.Task[None] | None = None
        # How many requests of `refresh_soon` in a row have failed or brought nothing new, and when the last one ended.
        self._refreshes_in_vain = 0
        self._refreshed_at_s = 0.0
        # Runs during the pause before the next one.
        self._pause_timer: asyncio.TimerHandle | None = None
        # The next request for topics that do not exist yet, and how many such requests there were in a row.
        self._missing_timer: asyncio.TimerHandle | None = None
        self._missing_attempts = 0
        self._listeners: list[Callable[[ClusterView], None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    # -- Start and close

    @classmethod
    async def open(cls, options: ClusterOptions, topics: Collection[str] = ()) -> Cluster:
        """Return a started cluster that keeps metadata of `topics`. Raises NoBrokerReachable."""
        cluster = cls(options)
        cluster.watch(topics)
        try:
            await cluster.start()
        except BaseException:
            await cluster.close()
            raise
        return cluster

    async def start(self) -> None:
        """Reach a broker and learn the cluster. Raises NoBrokerReachable at once if no broker responds."""
        await self._update_wanted()
        self.spawn(self._refresh_periodically(), "metadata refresh")

    async def close(self) -> None:
        """Stop the tasks, then close the connections, also if the caller is cancelled; may be called again."""
        self._closed = True
        self.retries.close()
        for timer in (self._missing_timer, self._pause_timer):
            if timer is not None:
                timer.cancel()
        await to_the_end(self._close(), "close")

    async def _close(self) -> None:
        await end_tasks([*self._tasks, *self._connections.stop_connecting()])
        await self._connections.close()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` as a task until it ends or the cluster is closed."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- Metadata

    def on_update(self, listener: Callable[[ClusterView], None]) -> Callable[[], None]:
        """Call `listener` with every new view, until the function that this returns is called."""
        self._listeners = [*self._listeners, listener]

        def stop() -> None:
            self._listeners = [each for each in self._listeners if each is not listener]

        return stop

    def watch(self, topics: Collection[str]) -> None:
        """Keep metadata of these topics from now on, besides those watched already."""
        self._topics.update(topics)

    def forget(self, topics: Collection[str]) -> None:
        """Keep metadata of these topics no longer."""
        self._topics.difference_update(topics)

    def watch_all(self, all_topics: bool) -> None:
        """Keep metadata of every topic from now on, or of the watched ones alone again."""
        self._watches_all = all_topics

    def leader(self, partition: TopicPartition) -> int:
        """Return the leader's node id, NO_LEADER if none is known."""
        return self.view.leader(partition)

    def refresh_leader(self, partition: TopicPartition, *, create: bool = False) -> None:
        """Look for a partition's leader, which is unknown or has moved, without waiting for it."""
        self.watch((partition.topic,))
        if create and partition.topic not in self.view.topics:
            self._sought.add(partition.topic)
        self.refresh_soon()

    async def topic(self, name: str, *, timeout_ms: float | None = None, create: bool = False) -> TopicInfo:
        """Return a topic with at least one led partition; wait for one that is being created.

        With `create` the broker may create it, as with `allow_auto_create_topics`, which holds for refreshes too.
        Raises UnknownTopic when the time is over (`default_api_timeout_ms` if none is given), NoBrokerReachable or
        RequestTimedOut if no broker said so, KafkaError if the name is invalid.
        """
        info = self.view.topics.get(name)
        if info is not None and info.partitions:
            return info
        check_topic(name)
        limit_ms = self.options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        silent = f"no broker described the topic {name!r} within {limit_ms:g} ms"
        self._awaited[name] += 1
        try:
            found = await self.retry(lambda: self._look_for_topic(name, create), timeout_ms=limit_ms, silent=silent)
            self.watch((name,))
            return found
        except _Missing as error:
            raise UnknownTopic(
                f"topic {name!r} was not there within {limit_ms:g} ms ({error.code.name}): create it first?"
            ) from None
        finally:
            self._awaited[name] -= 1
            if not self._awaited[name]:
                del self._awaited[name]

    async def _look_for_topic(self, name: str, create: bool) -> TopicInfo:
        """Return a topic that has a leader. Raises _Missing while it has none, KafkaError."""
        if create:
            self._sought.add(name)
        await self.refresh()
        info = self.view.topics.get(name)
        if info is not None and any(partition.leader != NO_LEADER for partition in info.partitions):
            return info
        code = self.view.errors.get(name) or ErrorCode.LEADER_NOT_AVAILABLE
        kind = _Missing if code.retriable else KafkaError
        raise kind(code, f"topic {name!r}: {code.text}")

    async def all_topics(self) -> ClusterView:
        """Request metadata of every topic. Return the view that has them."""
        await self._update(None)
        return self.view

    async def learn(self, topics: Iterable[str]) -> None:
        """Request metadata of these topics, watched or not."""
        await self._update({*topics}, create=self.options.allow_auto_create_topics)

    async def refresh(self) -> None:
        """Request metadata of the watched topics, or join the request under way. Raises what the request raises."""
        if self._refresh is None or self._refresh.done():
            self._refresh = self.spawn(self._update_wanted(), "metadata")
        await shared(self._refresh)

    def refresh_soon(self) -> None:
        """Request metadata of the watched topics without waiting for it.

        After requests that failed or brought nothing new, such as no leader again, the next one comes after a growing
        pause.
        """
        if self._closed or self._pause_timer is not None or (self._refresh is not None and not self._refresh.done()):
            return
        pause_s = 0.0
        if self._refreshes_in_vain:
            loop = asyncio.get_running_loop()
            pause_s = self._refreshed_at_s + self.backoff.pause_ms(self._refreshes_in_vain) / 1000 - loop.time()
        if pause_s > 0:
            self._pause_timer = asyncio.get_running_loop().call_later(pause_s, self._refresh_now)
        else:
            self._refresh_now()

    def _refresh_now(self) -> None:
        self._pause_timer = None
        if self._refresh is None or self._refresh.done():
            self._refresh = self.spawn(self._update_for_news(), "metadata")

    async def _refresh_periodically(self) -> None:
        while True:
            await asyncio.sleep(self.options.metadata_max_age_ms / 1000)
            self.refresh_soon()

    async def _update_for_news(self) -> None:
        before = self.view
        # Nothing is lost by an error: callers that need the metadata see the old view, retry, and have their own
        # time-out.
        with suppress(KafkaError):
            await self._update_wanted()
        self._refreshes_in_vain = self._refreshes_in_vain + 1 if self.view == before else 0
        self._refreshed_at_s = asyncio.get_running_loop().time()

    async def _update_wanted(self) -> None:
        """Request metadata of the topics that are watched or waited for.

        Apart from those that may be created: others may be deleted ones.
        """
        wanted = None if self._watches_all else self._topics | self._awaited.keys()
        sought, self._sought = self._sought, set()
        create = self.options.allow_auto_create_topics
        try:
            if sought and wanted is not None and not create:
                await self._update(sought, create=True)
                wanted -= sought
            if wanted or not sought:
                await self._update(wanted, create=create)
        except KafkaError:
            self._schedule_missing()
            raise
        unused = self.unused and self.unused(self._topics - sought - self._sought)
        if unused:
            self.forget(unused)
            self.view = self.view.without(unused)

    async def _update(self, topics: Collection[str] | None, *, create: bool = False) -> None:
        """Send one Metadata request for `topics`, or for all topics (None)."""
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in sorted(topics)]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=create)
        response = await self.request_any(request, MetadataResponse)
        if response.error_code:
            raise KafkaError(ErrorCode.of(response.error_code), "Metadata was refused")
        self.view = self.view.updated(response, whole=topics is None)
        self._schedule_missing()
        for listener in self._listeners:
            listener(self.view)

    def _schedule_missing(self) -> None:
        """Request metadata again soon if a watched topic does not exist yet but may be created."""
        if self._missing_timer is not None:
            self._missing_timer.cancel()
        if any(self.view.errors.get(topic, ErrorCode.NONE).retriable for topic in self._topics):
            self._missing_attempts += 1
            pause = self.backoff.pause_ms(self._missing_attempts) / 1000
            self._missing_timer = asyncio.get_running_loop().call_later(pause, self.refresh_soon)
        else:
            self._missing_timer, self._missing_attempts = None, 0

    # -- Connections

    def ready(self, node_id: int, purpose: str = GENERAL) -> Connection | None:
        """Return the open connection to a broker, or None."""
        return self._connections.ready(node_id, purpose)

    @property
    def is_connected(self) -> bool:
        """Whether a connection to any broker is open."""
        return self._connections.any_ready()

    async def connection(self, node_id: int, purpose: str = GENERAL) -> Connection:
        """Return the connection to a broker, opened if there is none. Raises ConnectionLost, ClientStopped."""
        node = self.view.nodes.get(node_id)
        if node is None:
            raise ConnectionLost(f"broker {node_id} is not in the cluster's metadata")
        return await self._connections.connect(node_id, (node.host, node.port), purpose, self.view.cluster_id)

    async def any_connection(self) -> Connection:
        """Return a connection to some broker: the open one on which the fewest requests wait, which a broker that hangs
        does not have; else to a known broker, else to a bootstrap server.

        Raises NoBrokerReachable, ClientStopped.
        """
        ready = self._connections.all_ready(GENERAL)
        if ready:
            jitter().shuffle(ready)
            return min(ready, key=lambda each: each.in_flight)
        nodes = list(self.view.nodes.values())
        jitter().shuffle(nodes)
        candidates: list[tuple[Broker, Address]] = [(node.node_id, (node.host, node.port)) for node in nodes]
        candidates += [(address, address) for address in self._bootstrap]
        failures: dict[str, str] = {}
        listens = False
        for broker, address in candidates:
            try:
                return await self._connections.connect(broker, address, GENERAL, self.view.cluster_id)
            except (ConnectionLost, RequestTimedOut) as error:
                listens = listens or not isinstance(error, NotConnected)
                where = f"{address[0]}:{address[1]}"
                failures[where] = error.message.removeprefix("cannot connect to ").removeprefix(where).lstrip(": ")
        tried = ", ".join(f"{where} ({why})" for where, why in failures.items())
        raise NoBrokerReachable(tried, listens=listens)

    def certificate_ends(self) -> dict[str, float]:
        """Return when the certificate of each broker with an open connection ends, in seconds since 1970.

        By address; empty without TLS, and where certificates are not checked.
        """
        ready = self._connections.all_ready(GENERAL)
        ends = {each.address: each.certificate_end_s for each in ready}
        return {address: end_s for address, end_s in ends.items() if end_s is not None}

    # -- Requests

    async def request(self, node_id: int, request: Message, response: type[R], purpose: str = GENERAL) -> R:
        """Send one request to one broker, once."""
        connection = await self.connection(node_id, purpose)
        return await connection.request(request, response)

    async def request_any(self, request: Message, response: type[R]) -> R:
        """Send one request to any broker; try another broker if the connection breaks.

        Raises NoBrokerReachable, KafkaError.
        """
        attempts = max(1, len(self.view.nodes)) + 1
        while True:
            attempts -= 1
            connection = await self.any_connection()
            try:
                return await connection.request(request, response)
            except (ConnectionLost, RequestTimedOut):
                if not attempts:
                    raise

    async def request_controller(self, request: Message | Callable[[Connection], Message], response: type[R]) -> R:
        """Send one request to the controller, once (in KRaft any broker, which forwards it).

        Where it depends on the versions that the controller speaks, `request` makes it for the connection.
        """
        try:
            connection = await self.connection(await self.controller())
            made = request if isinstance(request, Message) else request(connection)
            return await connection.request(made, response)
        except ConnectionLost:
            # Another broker may be the controller by now.
            self.refresh_soon()
            raise

    async def controller(self) -> int:
        """Return the controller's node id. Raises KafkaError if none is known."""
        if self.view.controller_id not in self.view.nodes:
            await self.refresh()
        if self.view.controller_id not in self.view.nodes:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the cluster names no controller")
        return self.view.controller_id

    async def retry(
        self, attempt: Callable[[], Awaitable[T]], *, timeout_ms: float | None = None, silent: str | None = None
    ) -> T:
        """Return the result of `attempt`, repeated after growing pauses while it raises a retriable KafkaError.

        Raises the last error when `timeout_ms` (`default_api_timeout_ms` if none) is over, RequestTimedOut if there is
        none, with the text `silent`: the attempt that is under way is cancelled, and may have been carried out.
        """
        limit_ms = self.options.default_api_timeout_ms if timeout_ms is None else timeout_ms
        failed: list[KafkaError] = []
        limit = asyncio.timeout(limit_ms / 1000)
        try:
            async with limit:
                with self.retries.of(attempt):
                    return await self._retry(attempt, limit, failed)
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"no broker has answered within {limit_ms:g} ms (default_api_timeout_ms)"
            raise (failed[-1] if failed else RequestTimedOut(silent or text)) from None

    async def _retry(self, attempt: Callable[[], Awaitable[T]], limit: asyncio.Timeout, failed: list[KafkaError]) -> T:
        """Return the result of `attempt`. `failed` has the error of the last one."""
        failures, loop = 0, asyncio.get_running_loop()
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                failures += 1
                pause = self.backoff.pause_ms(failures) / 1000
                if not error.retriable or loop.time() + pause > (limit.when() or 0):
                    raise
                failed[:] = [error]
                self.retries.failed(attempt, error)
                if error.code is ErrorCode.NOT_CONTROLLER:
                    # Another broker is, which the metadata does not name yet.
                    self.refresh_soon()
                _log.debug("%s: attempt %d failed, the next one comes in %.2f s", error, failures, pause)
            await asyncio.sleep(pause)


_PAUSE_S = 0.05


async def wait_for_broker(
    bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
    *,
    timeout_ms: float = 30_000,
    brokers: int = 1,
    **security: Unpack[SecurityArguments],
) -> list[Node]:
    """Wait until so many brokers of the cluster are known, and one of them answers. Return the known brokers.

    Raises NoBrokerReachable after `timeout_ms`, with the last reason.
    """
    check_numbers(timeout_ms=timeout_ms)
    options = ClusterOptions(
        bootstrap_servers,
        client_id="odradek-wait",
        request_timeout_ms=max(timeout_ms, 1),
        security=security_options("wait_for_broker", security),
    )
    loop = asyncio.get_running_loop()
    deadline, why, listens = loop.time() + timeout_ms / 1000, "no answer", False
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                cluster = await Cluster.open(options)
            nodes = list(cluster.view.nodes.values())
            await cluster.close()
            if len(nodes) >= brokers:
                return nodes
            why, listens = f"{len(nodes)} of {brokers} brokers are there", len(nodes) > 0
        except TimeoutError:
            pass
        except KafkaError as error:
            if not error.retriable:
                raise
            why, listens = error.message, True
            if isinstance(error, NoBrokerReachable):
                why, listens = error.tried, error.listens
        if loop.time() + _PAUSE_S > deadline:
            raise NoBrokerReachable(f"the cluster within {timeout_ms:g} ms: {why}", listens=listens)
        await asyncio.sleep(_PAUSE_S)
