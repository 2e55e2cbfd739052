"""Conformance: black-box checks of what Kafka promises, against any broker that claims to be one.

Each check makes topics and groups of its own, whose names begin with PREFIX, and they are removed at the end. A check
passes, fails with a reason, or is skipped where the broker does not offer its API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

from ..client import Admin, Consumer, NewTopic, Producer, TopicPartition
from ..client.core.cluster import Cluster
from ..client.core.connection import Connection
from ..client.core.coordinator import find_coordinator
from ..client.errors import UnsupportedVersion
from ..protocol.errors import EncodeError, ErrorCode, KafkaError
from ..protocol.schema import Message

PREFIX = "odradek-conformance-"
# A check that takes longer has failed.
CHECK_WITHIN_S = 60.0
_LOOK_AGAIN_S = 0.05
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a check. `reason` is empty where it passed."""

    name: str
    outcome: str
    reason: str = ""


class NotAsKafka(Exception):
    """The broker does something else than Kafka."""


class Target:
    """The broker under test, as checks use it."""

    def __init__(self, address: str, options: Callable[[str], Mapping[str, Any]]) -> None:
        """`options` returns the options of a client: "admin", "consumer" or "producer"."""
        self._address = address
        self._options = options
        self._topics: list[str] = []
        self._groups: list[str] = []
        given: dict[str, Any] = {**options("admin")}
        self.admin = Admin(address, **given)

    async def __aenter__(self) -> Target:
        await self.admin.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._clean()
        await self.admin.stop()

    async def _clean(self) -> None:
        """Remove what the checks have made, as far as it is there."""
        there = set(await self.admin.list_topics())
        left = [each for each in self._topics if each in there]
        if left:
            await self.admin.delete_topics(*left)
        found = {each.group_id for each in await self.admin.list_groups()}
        groups = [each for each in self._groups if each in found]
        if groups:
            await self.admin.delete_groups(*groups)

    # -- Names, clients, requests

    def name(self) -> str:
        """Return a name that nothing has. A topic of this name goes at the end."""
        self._topics.append(f"{PREFIX}{uuid4().hex[:12]}")
        return self._topics[-1]

    def group(self) -> str:
        """Return the name of a new group, which goes at the end."""
        self._groups.append(f"{PREFIX}{uuid4().hex[:12]}")
        return self._groups[-1]

    async def topic(self, partitions: int = 1, **configs: str) -> str:
        """Create a topic, and return its name once it has leaders. Configs have Kafka's names with `_` for `.`."""
        name = self.name()
        texts = {key.replace("_", "."): value for key, value in configs.items()}
        await self.admin.create_topics([NewTopic(name, partitions, -1, texts)])
        for number in range(partitions):
            await self._wait_for_leader(TopicPartition(name, number))
        return name

    async def _wait_for_leader(self, place: TopicPartition) -> None:
        await self._cluster.topic(place.topic)

        async def has_leader() -> bool:
            await self._cluster.refresh()
            return self._cluster.leader(place) >= 0

        await until(has_leader)

    def producer(self, **options: Any) -> Producer[bytes, bytes]:
        """Return a producer; use it with `async with`."""
        given: dict[str, Any] = {**self._options("producer"), "linger_ms": 0, **options}
        return Producer(self._address, **given)

    def consumer(self, *topics: str, **options: Any) -> Consumer[bytes, bytes]:
        """Return a consumer that begins with the first record; use it with `async with`."""
        usual = {"bootstrap_servers": self._address, "auto_offset_reset": "earliest"}
        given: dict[str, Any] = {**self._options("consumer"), **usual, **options}
        return Consumer(*topics, **given)

    async def read(self, topic: str, count: int, **options: Any) -> list[bytes | None]:
        """Return the values of the first records of a topic."""
        async with self.consumer(topic, **options) as consumer:
            return [(await consumer.getone()).value for _ in range(count)]

    @property
    def _cluster(self) -> Cluster:
        return self.admin._running_or_told()  # pyright: ignore[reportPrivateUsage]

    async def any_broker(self) -> Connection:
        """Return a connection to some broker."""
        return await self._cluster.any_connection()

    async def leader(self, topic: str, partition: int = 0) -> Connection:
        """Return a connection to the leader of a partition."""
        return await self._cluster.connection(self._cluster.leader(TopicPartition(topic, partition)))

    async def coordinator(self, group: str) -> Connection:
        """Return a connection to the coordinator of a group."""
        return await self._cluster.connection(await find_coordinator(self._cluster, group))

    async def ask(self, connection: Connection, message: Message, response: type[R], at_most: int | None = None) -> R:
        """Send a request in the highest version that both sides have, or at most `at_most`."""
        version = connection.version_for(type(message), at_most)
        return await connection.request(message, response, version=version)


Check = Callable[[Target], Awaitable[None]]


def expect(what: str, found: object, wanted: object) -> None:
    """NotAsKafka unless the two are the same."""
    if found != wanted:
        raise NotAsKafka(f"{what} is {_shown(found)}, in Kafka {_shown(wanted)}")


def expect_error(what: str, code: int, *wanted: ErrorCode) -> None:
    """NotAsKafka unless an error is one of these."""
    if code not in wanted:
        raise NotAsKafka(f"{what} is {ErrorCode.of(code).name}, in Kafka {' or '.join(each.name for each in wanted)}")


async def expect_raised(what: str, work: Awaitable[object], *wanted: ErrorCode) -> None:
    """NotAsKafka unless a call fails with one of these errors."""
    try:
        await work
    except KafkaError as error:
        expect_error(what, int(error.code), *wanted)
    else:
        raise NotAsKafka(f"{what} is no error, in Kafka {' or '.join(each.name for each in wanted)}")


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds; the time of the check is the bound."""
    while not await holds():  # noqa: ASYNC110 - a broker has no event
        await asyncio.sleep(_LOOK_AGAIN_S)


async def run(target: Target, checks: Iterable[tuple[str, Check]]) -> list[Outcome]:
    """Run the checks one after the other."""
    return [await _outcome(name, check, target) for name, check in checks]


async def _outcome(name: str, check: Check, target: Target) -> Outcome:
    try:
        await asyncio.wait_for(check(target), CHECK_WITHIN_S)
    except (UnsupportedVersion, EncodeError) as error:
        return Outcome(name, SKIPPED, str(error))
    except TimeoutError:
        return Outcome(name, FAILED, f"it was not done after {CHECK_WITHIN_S:g} s")
    except (NotAsKafka, KafkaError) as error:
        return Outcome(name, FAILED, str(error))
    return Outcome(name, PASSED)


def _shown(value: object) -> str:
    return f"{value!r:.200}"
