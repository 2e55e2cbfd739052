"""Where a member of a group in ZooKeeper keeps its offsets: in ZooKeeper, at the group's coordinator, or in both.

In ZooKeeper each partition has a persistent znode, with the offset as text.

Both is for the way from one to the other: every commit goes to both, and reading takes the newer offset. So a member
that commits to both can take over from any other, and any other from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol, TypeVar

from ...protocol.errors import ErrorCode
from ...zookeeper.operations import Change, Check, Create, Put, Steps, read_all, write, write_all
from ..core.committed_offsets import CommittedOffsets, Generation
from ..errors import CommitFailed
from ..record import OffsetAndMetadata, TopicPartition
from . import registry

ZOOKEEPER = "zookeeper"
KAFKA = "kafka"
# How often a write begins again because others make or remove the same znodes meanwhile.
_ATTEMPTS = 3
# Offsets of one write: a request to ZooKeeper has a limit of 1 MiB.
_AT_A_TIME = 500

T = TypeVar("T")


class OffsetStorage(Protocol):
    """Keeps the offsets of one group."""

    async def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets that there are. Raises KafkaError."""
        ...

    async def store(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets. Raises KafkaError."""
        ...


class Run(Protocol):
    """Drives steps in the session with ZooKeeper."""

    async def __call__(self, steps: Steps[T], /) -> T:
        """Return what the steps return. Raises KafkaError."""
        ...


class ZooKeeperStorage:
    """Offsets in ZooKeeper, written in the session that owns the partitions."""

    def __init__(self, group: str, member_path: str, run: Run) -> None:
        self._group = group
        self._member_path = member_path
        self._run = run

    async def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._run(load_offsets(self._group, partitions))

    async def store(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets. Raises CommitFailed where the consumer is not registered any more, KafkaError."""
        if offsets and not await self._run(store_offsets(self._group, self._member_path, offsets)):
            raise CommitFailed(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"nothing was committed: the consumer's znode {self._member_path} is gone. The records since the last "
                "commit will be read again.",
            )


class KafkaStorage:
    """Offsets at the group's coordinator, committed from outside of any generation."""

    def __init__(self, committed: CommittedOffsets) -> None:
        self._committed = committed

    async def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        found = await self._committed.fetch(partitions)
        return {place: each.offset for place, each in found.items() if each is not None}

    async def store(self, offsets: Mapping[TopicPartition, int]) -> None:
        values = {place: OffsetAndMetadata(offset) for place, offset in offsets.items()}
        await self._committed.commit(values, Generation())


class DualStorage:
    """Offsets in both: `target` is where they will be."""

    def __init__(self, target: OffsetStorage, other: OffsetStorage) -> None:
        self._target = target
        self._other = other

    async def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the newer offset of each partition. Raises KafkaError where one of both cannot be read."""
        found = await self._target.load(partitions)
        for place, offset in (await self._other.load(partitions)).items():
            found[place] = max(offset, found.get(place, 0))
        return found

    async def store(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets to both. Raises KafkaError; then one of both may have them."""
        await self._target.store(offsets)
        await self._other.store(offsets)


# -- Steps in ZooKeeper


def load_offsets(group: str, partitions: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, int]]:
    """Return the offsets that are there. A znode that holds no number counts as none."""
    wanted = list(partitions)
    found = yield from read_all(registry.offset_path(group, place) for place in wanted)
    return {
        place: int(znode.data)
        for place, znode in zip(wanted, found, strict=True)
        if znode is not None and znode.data.strip().isdigit()
    }


def store_offsets(group: str, member: str, offsets: Mapping[TopicPartition, int]) -> Steps[bool]:
    """Write offsets, as the consumer whose znode is `member`. False: it is not registered any more, or was disturbed.

    The same transaction checks that the znode is there: where the session has ended, others may have the partitions.
    """
    places = sorted(offsets)
    for begin in range(0, len(places), _AT_A_TIME):
        some = {place: offsets[place] for place in places[begin : begin + _AT_A_TIME]}
        if not (yield from _store(group, member, some)):
            return False
    return True


def _store(group: str, member: str, offsets: Mapping[TopicPartition, int]) -> Steps[bool]:
    for _ in range(_ATTEMPTS):
        paths = {registry.offset_path(group, place): b"%d" % offset for place, offset in offsets.items()}
        known = yield from read_all(paths)
        changes: list[Change] = [
            Create(path, data) if znode is None else Put(path, data)
            for (path, data), znode in zip(paths.items(), known, strict=True)
        ]
        if None in known:
            top = registry.offsets_path(group)
            yield from write_all((Create(f"{top}/{topic}"),) for topic in sorted({topic for topic, _ in offsets}))
        failure = yield from write(Check(member), *changes)
        if failure is None:
            return True
        if failure.path == member:
            return False
    return False
