"""The state of an archive: which offsets its table holds. It is in the table's metadata, in the commit of the files.

    odradek.topic     {"name", "id", "cluster"}                 a property of the table: the topic, and no other one
    odradek.state     {"offsets", "last", "commit", "run"}      in the summary of a snapshot, and the same as a property

`offsets` are the next ones by partition, also behind offsets without records; `last` are those of the last rows.

The newest ancestor of the table's head that has a state counts. A rollback goes back to an older one so, and archiving
goes on from there. Maintenance by other engines replaces the head by a snapshot without our summary, and may expire the
others: then the property counts. It does not where its snapshot is known and no ancestor, because that one was rolled
back: then the files tell, by the bounds of offsets in the manifests.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..core.metadata import ClusterView
from . import ArchiveError

TOPIC_KEY, STATE_KEY, LAYOUT_KEY = "odradek.topic", "odradek.state", "odradek.layout"


@dataclass(frozen=True, slots=True)
class TopicOf:
    """The topic that a table holds. `id` is "" where the cluster has no ids of topics."""

    name: str
    id: str
    cluster: str

    def text(self) -> str:
        """Return the property."""
        return json.dumps({"name": self.name, "id": self.id, "cluster": self.cluster})


def topic_in(view: ClusterView, topic: str) -> TopicOf:
    """Return a topic as its cluster has it now."""
    topic_id = view.topic_id(topic)
    return TopicOf(topic, topic_id.hex() if any(topic_id) else "", view.cluster_id or "")


@dataclass(frozen=True, slots=True)
class State:
    """What a table holds."""

    offsets: Mapping[int, int] = field(default_factory=dict[int, int])
    last: Mapping[int, int] = field(default_factory=dict[int, int])
    # Of the commit that wrote it, "" for a table without one.
    commit: str = ""
    run: str = ""

    def text(self) -> str:
        """Return the property and the entry of a summary."""
        parts = {"offsets": self.offsets, "last": self.last, "commit": self.commit, "run": self.run}
        return json.dumps(parts)


def topic_of(metadata: Any) -> TopicOf:
    """Return the topic of a table. Raises ArchiveError where it is no archive."""
    text = metadata.properties.get(TOPIC_KEY)
    if text is None:
        raise ArchiveError(f"the table at {metadata.location} is no archive of a topic: it has no {TOPIC_KEY}")
    try:
        found = json.loads(text)
        return TopicOf(str(found["name"]), str(found["id"]), str(found["cluster"]))
    except (ValueError, TypeError, KeyError):
        raise ArchiveError(f"the table at {metadata.location} has no readable {TOPIC_KEY}: {text[:200]}") from None


def check_topic(metadata: Any, topic: TopicOf) -> None:
    """Raise ArchiveError unless the table holds this topic."""
    held = topic_of(metadata)
    where = f"the table at {metadata.location}"
    if held.name != topic.name:
        raise ArchiveError(f"{where} holds the topic {held.name!r}, not {topic.name!r}: give this one --table")
    if held.cluster != topic.cluster:
        raise ArchiveError(f"{where} holds {held.name!r} of the cluster {held.cluster}, not of {topic.cluster}")
    if held.id != topic.id:
        why = f"holds an earlier topic {held.name!r} (id {held.id}), which was deleted; the present one is {topic.id}"
        raise ArchiveError(f"{where} {why}: give this one --table")


def state_of(table: Any) -> State:
    """Return the state of a table. Raises ArchiveError where the metadata leave it open."""
    metadata = table.metadata
    for snapshot in ancestors(metadata):
        text = in_summary(snapshot)
        if text is not None:
            return _parsed(text, metadata)
    text = metadata.properties.get(STATE_KEY)
    if text is None:
        return _without(metadata)
    state = _parsed(text, metadata)
    if any(_commit_of(snapshot, metadata) == state.commit for snapshot in metadata.snapshots):
        # It was rolled back, and the offsets of what it is now have expired. Its files hold all up to their last ones.
        last = last_offsets(table)
        return State({partition: offset + 1 for partition, offset in last.items()}, last)
    _check_last(table, state)
    return state


def ancestors(metadata: Any) -> Iterator[Any]:
    """Yield the head of a table and what it was made from, as far as that is not expired."""
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)


def last_offsets(table: Any) -> dict[int, int]:
    """Return the last offset of each partition in a table's files, by the bounds in its manifests alone.

    A file of several partitions, as other engines write them, counts for each of these.
    """
    found: dict[int, int] = {}
    for _, bounds, _ in live_files(table):
        for partition in range(bounds.partition, bounds.last_partition + 1):
            found[partition] = max(found.get(partition, -1), bounds.last)
    return found


class Bounds(NamedTuple):
    """The least and the greatest partition and offset of a file."""

    partition: int
    last_partition: int
    first: int
    last: int


def live_files(table: Any) -> Iterator[tuple[Any, Bounds, bool]]:
    """Yield the data files of a table's head with their bounds, and whether rows of them are deleted.

    The plan of pyiceberg also says what of each file a filter leaves, for half of its time. So it is asked where files
    of deletes exist alone. Raises ArchiveError.
    """
    from pyiceberg.manifest import ManifestContent  # a second, which a caller with a table has paid

    head, schema = table.metadata.current_snapshot(), table.schema()
    ids = [schema.find_field(name).field_id for name in ("partition", "offset")]
    manifests = [] if head is None else head.manifests(table.io)
    if any(each.content == ManifestContent.DELETES for each in manifests):
        for task in table.scan().plan_files():
            yield task.file, _bounds(task.file, ids), bool(task.delete_files)
        return
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            yield file, _bounds(file, ids), False


def _bounds(file: Any, ids: Sequence[int]) -> Bounds:
    """Return the bounds of a file, as its manifest has them. Raises ArchiveError."""
    lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
    try:
        (least, first), (most, last) = ([_number(bounds[each]) for each in ids] for bounds in (lower, upper))
    except KeyError:
        raise ArchiveError(f"{file.file_path} has no bounds of partition and offset in its manifest") from None
    return Bounds(least, most, first, last)


def _number(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)


def in_summary(snapshot: Any, key: str = STATE_KEY) -> str | None:
    """Return an entry of a snapshot's summary."""
    return None if snapshot.summary is None else snapshot.summary.additional_properties.get(key)


def _commit_of(snapshot: Any, metadata: Any) -> str | None:
    text = in_summary(snapshot)
    return None if text is None else _parsed(text, metadata).commit


def _without(metadata: Any) -> State:
    if metadata.current_snapshot() is not None:
        raise ArchiveError(f"the table at {metadata.location} has rows, and nothing says which offsets they are")
    return State()


def _check_last(table: Any, state: State) -> None:
    """Raise ArchiveError where the rows end before those of the state: rolled back, and the rest expired."""
    found = last_offsets(table)
    for partition, last in state.last.items():
        if found.get(partition, -1) < last:
            why = f"its rows of partition {partition} end at {found.get(partition, -1)}, its state says {last}"
            raise ArchiveError(f"the table at {table.metadata.location} was rolled back or rows were deleted: {why}")


def _parsed(text: str, metadata: Any) -> State:
    try:
        found = json.loads(text)
        offsets, last = (
            {int(partition): int(offset) for partition, offset in found[name].items()} for name in ("offsets", "last")
        )
        return State(offsets, last, str(found["commit"]), str(found["run"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ArchiveError(f"the table at {metadata.location} has no readable {STATE_KEY}: {text[:200]}") from None
