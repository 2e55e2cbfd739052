"""What a clean stop knows of the metadata journal and of each log: lines of the clean-stop marker.

    {"version":0,"brokerEpoch":-1}                Kafka's marker; Kafka reads no further
    CRC-32C of the last line, in decimal
    {"version":1,"logs":{"TOPIC-N":[...], ...},   the fields of a KnownLog in their order
     "journal":[GENERATION,SIZE]}                 where the metadata journal ends; not in other directories

A start lists the directory of each log. Where names, sizes and times of the last write are those that the stop has
seen, the files are not opened: the end of the log, its leader epochs and whether it has producers are known. The first
append then reads the end of the newest segment, as a start does without this knowledge; where that is damaged, the log
goes on in a new segment. Where the directory differs in anything, or these lines are damaged, the start opens the log.

A start takes a journal that ends before its noted end for damaged: no crash can have torn it since the stop.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..protocol.records.crc import crc32c
from .journal import JournalEnd

KAFKAS_MARKER = b'{"version":0,"brokerEpoch":-1}'
_VERSION = 1


class KnownLog(NamedTuple):
    """A log as a clean stop has left it."""

    # Name -> [size, time of the last write in ns], as Disk.stamps returns it.
    files: dict[str, list[int]]
    end_offset: int
    # The newest segment's largest timestamp, and the last offset of its batch.
    max_timestamp_ms: int
    max_offset: int
    # [epoch, start offset]
    epochs: list[list[int]]
    has_producers: bool


class CleanStop(NamedTuple):
    """What a clean stop knows."""

    # By the name of the log's directory.
    logs: Mapping[str, KnownLog]
    # None where the directory has no metadata journal, or an earlier version stopped.
    journal: JournalEnd | None = None


def encode(stop: CleanStop) -> bytes:
    """Return the content of a clean-stop marker."""
    content: dict[str, object] = {"version": _VERSION, "logs": stop.logs}
    if stop.journal is not None:
        content["journal"] = stop.journal
    body = json.dumps(content, separators=(",", ":")).encode()
    return b"\n".join([KAFKAS_MARKER, b"%d" % crc32c(body), body, b""])


def decode(marker: bytes) -> CleanStop:
    """Return what is known; nothing where the marker is Kafka's, or of another version, or its CRC does not match."""
    lines = marker.split(b"\n")
    if len(lines) != 4 or lines[1] != b"%d" % crc32c(lines[2]):
        return CleanStop({})
    content: dict[str, Any] = json.loads(lines[2])
    if content["version"] != _VERSION:
        return CleanStop({})
    logs = {name: KnownLog(*fields) for name, fields in content["logs"].items()}
    return CleanStop(logs, JournalEnd(*content["journal"]) if "journal" in content else None)
