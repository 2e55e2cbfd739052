"""The interfaces of the broker that coordinators use: clocks, timers, topics, and the log of their records.

These are protocols, so that tests can put their own in the place of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from ...protocol.errors import KafkaError
from ...protocol.topic_partition import TopicPartition
from ..security.acls import Operation, ResourceType
from .replay import Ended, Written

# Called once: with None when the records are committed, otherwise with the reason why they cannot be.
OnCommitted = Callable[[KafkaError | None], None]
# Does work in a thread, and calls the second function on the event loop once it has ended or failed.
Aside = Callable[[Callable[[], None], Callable[[], None]], None]


def at_once(work: Callable[[], None], done: Callable[[], None]) -> None:
    """Do the work in the caller's turn."""
    work()
    done()


class Clock(Protocol):
    """Two clocks in milliseconds: the wall clock dates records, the monotonic one counts down timers."""

    def now_ms(self) -> int: ...
    def monotonic_ms(self) -> int: ...


class TimerHandle(Protocol):
    """A timer that can be cancelled."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """The broker's one heap of timers."""

    def at(self, deadline_ms: int, callback: Callable[[], None]) -> TimerHandle: ...


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


class StateLog(Protocol):
    """The internal topic that holds a coordinator's records: `__consumer_offsets` or `__transaction_state`."""

    def partition_count(self) -> int:
        """Return the number of partitions that the topic has, or will have when it is created."""
        ...

    def ensure_topic(self) -> None:
        """Create the topic unless it exists."""
        ...

    def coordinator_epoch(self, partition: int) -> int:
        """Return the leader epoch of the partition, which its coordinator writes into markers."""
        ...

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        on_committed: OnCommitted,
        producer: tuple[int, int] | None = None,
        durable_after: Sequence[TopicPartition] | None = None,
    ) -> None:
        """Append the records as one batch, in the transaction of `producer` (its id and epoch) if one is given.

        With `durable_after` they are committed once they are on disk, and on disk only after these partitions.
        """
        ...

    def entries(self, partition: int) -> Iterable[Written | Ended]:
        """Return every record that has a key and every end of a transaction, oldest first."""
        ...

    def end_offset(self, partition: int) -> int:
        """Return the offset of the next record; 0 if the topic does not exist."""
        ...

    def delete_before(self, partition: int, offset: int) -> None:
        """Delete what is below the offset."""
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
