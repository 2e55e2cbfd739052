"""Checkpoints and other small files, each replaced as a whole: a crash leaves the old content or the new one.

Text checkpoints, Kafka's layout: line 1 the version 0, line 2 the number of entries, then an entry a line.

    recovery-point-offset-checkpoint    topic partition offset: below it everything was fsynced       } one each
    log-start-offset-checkpoint         topic partition offset: DeleteRecords went up to here         } in a data
    cleaner-offset-checkpoint           topic partition offset: a cleaning has come to here           } directory
    replication-offset-checkpoint       topic partition offset: the high watermark, in a cluster      }
    leader-epoch-checkpoint             epoch start-offset; one in each partition's directory

    meta.properties        version=1, cluster.id, node.id, directory.id: whose data directory this is
    partition.metadata     version: 0, topic_id: in Kafka's base 64; in each partition's directory
    .kafka_cleanshutdown   there only from a clean stop to the next start; see known_logs.py
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..protocol.errors import InvalidField
from ..protocol.primitives import uuid_from_text, uuid_to_text
from . import known_logs
from .errors import DamagedFile
from .files import DISK, Disk
from .known_logs import CleanStop

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"
REPLICATION_OFFSET = "replication-offset-checkpoint"
LEADER_EPOCH = "leader-epoch-checkpoint"
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_VERSION = "0"


# -- lines -----------------------------------------------------------------------------------------


def write_entries(
    path: Path, entries: Iterable[str], disk: Disk = DISK, *, durable: bool = True, sync_directory: bool = True
) -> None:
    """Write a text checkpoint durably. Without `sync_directory`, the caller forces the directory to disk.

    Not `durable`: the caller forces the file to disk, too.
    """
    text = entries_text(list(entries))
    disk.write_atomically(path, text.encode(), durable=durable, sync_directory=sync_directory)


def entries_text(entries: list[str]) -> str:
    """Return the text of a checkpoint."""
    return "".join(f"{line}\n" for line in [_VERSION, str(len(entries)), *entries])


def read_entries(path: Path, fields: int, disk: Disk = DISK) -> list[list[str]]:
    """Return the entries of a text checkpoint, each split into `fields` words; [] if the file is missing.

    Raises DamagedFile.
    """
    text = _text(path, disk)
    if text is None:
        return []
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != _VERSION or not lines[1].isdecimal():
        raise DamagedFile(path, 1, f"does not begin with version {_VERSION} and a count")
    if int(lines[1]) != len(lines) - 2:
        raise DamagedFile(path, 2, f"{lines[1]} entries announced, {len(lines) - 2} there")
    entries = [line.split() for line in lines[2:]]
    for number, words in enumerate(entries, 3):
        if len(words) != fields:
            raise DamagedFile(path, number, f"{len(words)} words where {fields} should be")
    return entries


def _text(path: Path, disk: Disk) -> str | None:
    """Return the text of a file, None where it is missing. Raises DamagedFile, DiskError."""
    try:
        data = disk.read_file_if_there(path)
        return None if data is None else data.decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(path, error.start, "not UTF-8") from error


def parse_int(path: Path, line: int, word: str) -> int:
    """Return the number, or raise DamagedFile."""
    try:
        return int(word)
    except ValueError:
        raise DamagedFile(path, line, f"{word!r} is not a number") from None


# -- offsets of partitions -------------------------------------------------------------------------


def write_offsets(path: Path, offsets: Mapping[tuple[str, int], int], disk: Disk = DISK) -> None:
    """Write {(topic, partition): offset}."""
    disk.write_atomically(path, offsets_text(offsets).encode())


def offsets_text(offsets: Mapping[tuple[str, int], int]) -> str:
    """Return the text of a checkpoint of {(topic, partition): offset}."""
    return entries_text([f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()])


def read_offsets(path: Path, disk: Disk = DISK) -> dict[tuple[str, int], int]:
    """Return {(topic, partition): offset}; {} if the file is missing. Raises DamagedFile."""
    return {
        (topic, parse_int(path, line, partition)): parse_int(path, line, offset)
        for line, (topic, partition, offset) in enumerate(read_entries(path, 3, disk), 3)
    }


# -- clean stop ------------------------------------------------------------------------------------


def write_clean_shutdown(directory: Path, stop: CleanStop, disk: Disk = DISK) -> None:
    """Note that every log in the data directory was closed and is whole, and what is known of them."""
    disk.write_atomically(directory / CLEAN_SHUTDOWN, known_logs.encode(stop))


def read_clean_shutdown(directory: Path, disk: Disk = DISK) -> CleanStop | None:
    """Return what the last stop knew if it was clean, and None otherwise. Raises DiskError."""
    path = directory / CLEAN_SHUTDOWN
    try:
        marker = disk.read_file_if_there(path)
    except DamagedFile:
        # The marker is there, and what it says of the logs cannot be read.
        marker = b""
    return None if marker is None else known_logs.decode(marker)


def remove_clean_shutdown(directory: Path, disk: Disk = DISK) -> None:
    """Remove the marker, durably: before anything else is written. Raises DiskError."""
    disk.unlink(directory / CLEAN_SHUTDOWN)
    disk.fsync_dir(directory)


# -- identities ------------------------------------------------------------------------------------


# The id of no broker: what prepares a data directory does not know whose it will be.
NO_NODE = -1


@dataclass(slots=True)
class MetaProperties:
    """Whose data directory it is. Ids in Kafka's base 64, 22 characters."""

    cluster_id: str
    # NO_NODE: the first broker that starts with it.
    node_id: int
    directory_id: str
    # Whether ZooKeeper holds the cluster together (version 0, with a broker.id), or the broker is alone (version 1).
    is_clustered: bool = False


def write_meta_properties(directory: Path, meta: MetaProperties, disk: Disk = DISK) -> None:
    lines = [
        f"version={0 if meta.is_clustered else 1}",
        f"cluster.id={meta.cluster_id}",
        f"{'broker' if meta.is_clustered else 'node'}.id={meta.node_id}",
        f"directory.id={meta.directory_id}",
    ]
    disk.write_atomically(directory / META_PROPERTIES, "".join(f"{line}\n" for line in lines).encode())


def read_meta_properties(directory: Path, disk: Disk = DISK) -> MetaProperties | None:
    """Return None where the directory is new. Raises DamagedFile."""
    path = directory / META_PROPERTIES
    text = _text(path, disk)
    if text is None:
        return None
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise DamagedFile(path, number, f"{line!r} is not name=value")
        values[name.strip()] = value.strip()
    if values.get("version") not in ("0", "1"):
        raise DamagedFile(path, 1, f"version {values.get('version')}, not 0 or 1")
    is_clustered = values["version"] == "0"
    number = "broker.id" if is_clustered else "node.id"
    for name in ("cluster.id", number):
        if name not in values:
            raise DamagedFile(path, 1, f"{name} is missing")
    node_id = parse_int(path, 1, values[number])
    return MetaProperties(values["cluster.id"], node_id, values.get("directory.id", ""), is_clustered)


def write_partition_metadata(directory: Path, topic_id: bytes, disk: Disk = DISK, *, durable: bool = True) -> None:
    """Write the id (16 bytes) of the topic that a partition's directory belongs to.

    A topic that is created again under its old name has another id.
    """
    text = partition_metadata_text(topic_id)
    disk.write_atomically(directory / PARTITION_METADATA, text.encode(), durable=durable)


def partition_metadata_text(topic_id: bytes) -> str:
    """Return the text of a partition's `partition.metadata`."""
    return f"version: 0\ntopic_id: {uuid_to_text(topic_id)}"


def read_partition_metadata(directory: Path, disk: Disk = DISK) -> bytes | None:
    """Return the topic id, None where the file is missing. Raises DamagedFile."""
    path = directory / PARTITION_METADATA
    text = _text(path, disk)
    if text is None:
        return None
    lines = text.splitlines()
    if len(lines) != 2 or lines[0] != "version: 0" or not lines[1].startswith("topic_id: "):
        raise DamagedFile(path, 1, "not 'version: 0' and 'topic_id: ...'")
    try:
        return uuid_from_text(lines[1].removeprefix("topic_id: ").strip())
    except InvalidField as error:
        raise DamagedFile(path, 2, str(error)) from error
