"""Measure an archive in CPU time of this process, beside what pyarrow needs to write ready batches.

    python -m benchmarks archive [--rows 400000] [--commits 200] [--files 1000]

The goals: at most 1.4 times pyarrow's time, 1.5 million rows a second, 0.06 s a commit also at the 1,440th, and 0.1 s
to plan a union over 1,000 files, and 4 times the raw archive for Avro with types. The broker is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from odradek.client.archive.layout import SCHEMA, arrow_schema
from odradek.client.archive.parquet_files import parquet_writer
from odradek.client.archive.places import catalog_of
from odradek.client.archive.run import ArchiveOptions, Archiver
from odradek.client.archive.typed import of_registry
from odradek.client.archive.union import cut
from odradek.client.archive.upkeep import keep_up
from odradek.client.arrow.read_options import read_options
from odradek.client.blocking import Producer
from odradek.client.schemas import Avro, Schema, SchemaRegistry
from odradek.client.schemas.schema_registry import Registered

from .brokers import Odradek

_VALUE_BYTES = 110


def main(arguments: list[str]) -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks archive", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--commits", type=int, default=200)
    parser.add_argument("--files", type=int, default=1_000)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as folder, Odradek(Path(folder) / "broker") as broker:
        for line in _figures(broker.address, Path(folder), given.rows, given.commits, given.files):
            print(line)


def _figures(address: str, folder: Path, rows: int, commits: int, files: int) -> Iterator[str]:
    catalog = catalog_of(str(folder / "archive"), create=True)
    reading = read_options({"kafka.bootstrap.servers": address, "path": "fetch"}, "archives")
    _produce(address, "bulk", rows)
    tables = [ArchiveOptions(table=("odradek", f"bulk_{number}")) for number in range(6)]
    # The first round asks the system for memory, which the later rounds use again: it is not measured.
    Archiver(catalog, "bulk", reading, tables[0]).round()
    # In turn: CPU time is dearer while others run on the machine.
    turns = [(_cpu_s(Archiver(catalog, "bulk", reading, each).round), _floor_s(catalog, folder)) for each in tables[1:]]
    taken, floor = (min(each) for each in zip(*turns, strict=True))
    yield f"raw: {rows / taken / 1e6:.2f} million rows a CPU second, {taken / floor:.2f} times pyarrow ({floor:.2f} s)"
    yield _avro(address, catalog, reading, rows)
    times: list[float] = []
    archiver = Archiver(catalog, "commits", reading)
    for _ in range(commits):
        _produce(address, "commits", 1)
        times.append(_cpu_s(lambda: (archiver.round(), keep_up(archiver))))
    tenth = max(commits // 10, 1)
    first, last = (sum(part) / tenth for part in (times[:tenth], times[-tenth:]))
    yield f"commits: {first:.3f} CPU s each at first, {last:.3f} at the {commits:,}th, upkeep counted"
    yield f"union: {_union_s(address, catalog, reading, folder, files):.3f} CPU s to plan {files:,} files"


def _avro(address: str, catalog: Any, reading: Any, rows: int) -> str:
    """Archive records of Avro without types, and with them."""
    registry = _Registry()
    write, chance = Avro(registry).writer(1, registry.schema(1)), random.Random(rows)
    values = [
        write({
            "flight": number, "carrier": chance.choice(("AA", "DL", "UA")), "delay": chance.randrange(-20, 400),
            "at": 1_700_000_000_000 + number, "tail": f"N{chance.randrange(99_999)}", "miles": chance.random() * 3000,
        })
        for number in range(rows)
    ]  # fmt: skip
    with Producer(address) as producer:
        producer.send_many("avro", ((None, each) for each in values))
    typed = ArchiveOptions(table=("odradek", "typed"), values=lambda: of_registry(registry, "avro", "avro"))
    raw, both = (_cpu_s(Archiver(catalog, "avro", reading, each).round) for each in (ArchiveOptions(), typed))
    read, column = of_registry(registry, "avro", "avro").read, pa.array(values, pa.binary())
    alone = _cpu_s(lambda: read(column, np.zeros(rows, np.bool_)))
    of_raw = f"{both / raw:.2f} times the raw archive, decoding alone {alone / raw:.2f} times"
    return f"avro: {rows / both / 1e6:.2f} million rows a CPU second with types, {of_raw}"


class _Registry(SchemaRegistry):
    """A registry that has one schema."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1")

    def schema(self, schema_id: int) -> Schema:
        kinds = {"flight": "int", "carrier": "string", "delay": "int", "miles": "double", "tail": ["null", "string"]}
        kinds["at"] = {"type": "long", "logicalType": "timestamp-millis"}
        fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
        return Schema(json.dumps({"type": "record", "name": "Flight", "fields": fields}))

    def latest(self, subject: str) -> Registered:
        return Registered(1, 1, self.schema(1))


def _produce(address: str, topic: str, rows: int) -> None:
    """Write flights as JSON of 110 bytes, no two alike."""
    chance = random.Random(rows)

    def flight(number: int) -> bytes:
        text = {"flight": number, "carrier": chance.choice(("AA", "DL", "UA")), "delay": chance.randrange(-20, 400)}
        value = json.dumps(text | {"tail": f"N{chance.randrange(99_999)}", "note": ""})
        return (value[:-2] + f"{chance.getrandbits(160):x}")[: _VALUE_BYTES - 2].encode() + b'"}'

    with Producer(address) as producer:
        producer.send_many(topic, ((b"%08d" % number, flight(number)) for number in range(rows)))


def _floor_s(catalog: Any, folder: Path) -> float:
    """Return what pyarrow needs for the same rows, which it has."""
    schema = arrow_schema(SCHEMA)
    batches = catalog.load_table(("odradek", "bulk_0")).scan().to_arrow().cast(schema).to_batches(max_chunksize=131_072)

    def work() -> None:
        with (folder / "floor.parquet").open("wb") as stream, parquet_writer(stream, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)

    return _cpu_s(work)


def _union_s(address: str, catalog: Any, reading: Any, folder: Path, files: int) -> float:
    # Each day has a file of its own.
    with Producer(address) as producer:
        for day in range(files):
            producer.send("files", b"x", timestamp_ms=day * 86_400_000)
    Archiver(catalog, "files", reading).round()
    cut(str(folder / "archive"), "files", reading)  # imports
    return _cpu_s(lambda: cut(str(folder / "archive"), "files", reading))


def _cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began
