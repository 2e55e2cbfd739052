"""A broker whose topics tests archive, and what other people's readers find in a table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek.client import Admin, NewTopic, Producer
from odradek.client.archive.run import ArchiveOptions, Archiver
from odradek.client.arrow.connection import ReadOptions, client_options
from odradek.client.core.option_values import bootstrap_addresses
from odradek.client.core.security import PLAINTEXT

# What a folder of an archive is called: readers must not take it for a pattern.
FOLDER = "archive [1]"


@dataclass(frozen=True)
class World:
    """A broker, and how tests write to it and archive it."""

    address: str

    def fill(self, topic: str, rows: int, *, partitions: int = 1, new: bool = True, size: int = 0) -> None:
        values = [b"%d" % number + b"." * size for number in range(rows)]
        self.send(topic, *values, key=b"k", partitions=partitions, new=new)

    def send(
        self, topic: str, *values: bytes | None, key: bytes | None = None, partitions: int = 1, new: bool = True
    ) -> None:
        """Write values to the partitions in turn."""

        async def work() -> None:
            async with Producer(self.address) as producer:
                for number, each in enumerate(values):
                    await producer.send(topic, each, key=key, partition=number % partitions)

        if new:
            self.admin(lambda admin: admin.create_topics([NewTopic(topic, partitions)]))
        asyncio.run(work())

    def admin(self, work: Callable[[Admin], Any]) -> Any:
        """Return what a coroutine of an admin client returns."""

        async def main() -> Any:
            async with Admin(self.address) as admin:
                return await work(admin)

        return asyncio.run(main())

    @property
    def reading(self) -> ReadOptions:
        return ReadOptions(client_options(bootstrap_addresses(self.address), PLAINTEXT, {}))

    def archiver(self, catalog: Any, topic: str, **options: Any) -> Archiver:
        return Archiver(catalog, topic, self.reading, ArchiveOptions(**options))


def offsets_in(table: Any) -> dict[int, list[int]]:
    """The offsets of each partition that pyiceberg reads from a table, sorted, with those that are there twice."""
    rows = table.scan(selected_fields=("partition", "offset")).to_arrow().to_pylist()
    found: dict[int, list[int]] = {}
    for each in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        found.setdefault(each["partition"], []).append(each["offset"])
    return found


def files_in(table: Any) -> set[str]:
    """The data files that a table's head names."""
    return {task.file.file_path for task in table.scan().plan_files()}


def whole(partitions: int, rows: int) -> dict[int, list[int]]:
    """The offsets [0, rows) in each partition."""
    return {number: list(range(rows)) for number in range(partitions)}


def data_files(catalog_folder: Path) -> Sequence[Path]:
    """The Parquet files that are on disk."""
    return sorted(catalog_folder.rglob("*.parquet"))
