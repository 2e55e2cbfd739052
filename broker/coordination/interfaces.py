"""What coordinators use of the broker above them, and of topics as pure machines see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ...protocol.errors import KafkaError
from ...protocol.topic_partition import TopicPartition
from ..security.acls import Operation, ResourceType

# Called once: with None when the records are committed, otherwise with the reason why they cannot be.
OnCommitted = Callable[[KafkaError | None], None]
# Does work in a thread, and calls the second function on the event loop once it has ended or failed.
Aside = Callable[[Callable[[], None], Callable[[], None]], None]


def at_once(work: Callable[[], None], done: Callable[[], None]) -> None:
    """Do the work in the caller's turn."""
    work()
    done()


class Context(Protocol):
    """The client that sent a request, and the version of the request."""

    @property
    def api_version(self) -> int: ...
    @property
    def client_id(self) -> str: ...
    @property
    def client_host(self) -> str: ...
    @property
    def acl_changes(self) -> int: ...
    def may(self, operation: Operation, resource_type: ResourceType, name: str, *, audited: bool = True) -> bool: ...


class Topic(Protocol):
    """A topic that exists."""

    @property
    def id(self) -> bytes: ...
    @property
    def name(self) -> str: ...
    @property
    def partition_count(self) -> int: ...
    def partition(self, index: int) -> object | None: ...


class Topics(Protocol):
    """The broker's topics, by name and by id."""

    def get(self, name: str, /) -> Topic | None: ...
    def by_id(self, topic_id: bytes, /) -> Topic | None: ...
    def names(self) -> list[str]: ...
    @property
    def change_count(self) -> int:
        """A number that grows whenever a topic is created, deleted or given partitions."""
        ...


class Question(NamedTuple):
    """What a transaction coordinator is asked: may a producer begin to write to a partition in its transaction?"""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    place: TopicPartition
    # Whether the partition is added with that (KIP-890), and the others that the same request writes to.
    implicit: bool
    also: frozenset[TopicPartition] = frozenset()
