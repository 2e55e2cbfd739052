"""The offsets of a group in ZooKeeper, as steps: a persistent znode for each partition, with the number as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..record import TopicPartition
from . import registry
from .operations import Change, Check, Create, Put, Steps, read_all, write, write_all

# How often a write begins again because others make or remove the same znodes meanwhile.
_ATTEMPTS = 3
# Offsets of one write: a request to ZooKeeper has a limit of 1 MiB.
_AT_A_TIME = 500


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
