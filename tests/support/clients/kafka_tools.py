"""Kafka's command-line tools, from the jars that KAFKA_LIB names."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from odradek.tests.support.brokers.process import java
from odradek.tests.support.clients.others import jars

WITHIN_S = 60
DUMP = "org.apache.kafka.tools.DumpLogSegments"


def config_command() -> str:
    """Return the class of kafka-configs, which Kafka 4.4 has moved."""
    folder = jars()
    is_older = folder is not None and any(folder.glob("kafka-tools-4.[0-3].*.jar"))
    return "kafka.admin.ConfigCommand" if is_older else "org.apache.kafka.tools.ConfigCommand"


def kafka_tool(name: str, *arguments: str, sent: str | None = None) -> str:
    """Run one of Kafka's command-line tools, and return its output. Raises AssertionError with its last lines."""
    command = [*java(), name, *arguments]
    done = subprocess.run(command, input=sent, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, f"{name.rpartition('.')[2]}: {done.stdout[-200:]} {done.stderr[-300:]}"
    return done.stdout


def dumped(paths: Sequence[Path], *options: str) -> dict[Path, str]:
    """Return what DumpLogSegments prints for each file, with its warnings. One process reads all files."""
    said = kafka_tool(DUMP, *options, "--files", ",".join(map(str, paths)))
    # It says first which file it reads; what does not fit in an index comes when it has read them all.
    parts = said.split("Dumping ")[1:]
    assert len(parts) == len(paths), f"{len(parts)} of {len(paths)} files were read: {said[-200:]}"
    return dict(zip(paths, parts, strict=True))
