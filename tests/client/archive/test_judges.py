"""Other people's readers of Iceberg find the rows that the topic has, also after a compaction and an expiry.

DUCKDB_ICEBERG is a folder of `pip install --target FOLDER duckdb==1.5.5 duckdb-extension-iceberg==1.5.5
duckdb-extension-avro==1.5.5`: the extension is there for older versions than the one that `odradek[sql]` brings.
SPARK_ICEBERG is a folder of `pip install --target FOLDER pyspark==4.1.4` with Maven's jar
org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 in it (there is none for the Spark of `odradek[spark]`), and
org.xerial:sqlite-jdbc:3.46.1.3, by which it asks the archive's own catalog.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")

from odradek.client.archive import upkeep
from odradek.client.archive.typed import of_json
from odradek.tests.support.clients.archive_world import World

COLUMNS = '"offset", hex(value), value_.a'
# What prints the rows of a table, by the folder of the reader, the table's newest metadata and the columns.
JUDGES = {
    "DUCKDB_ICEBERG": """
import json, sys, duckdb
from pathlib import Path
at = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "iceberg"):
    at.execute(f"load '{next(Path(sys.argv[1]).glob(f'duckdb_extension_{name}/**/*.duckdb_extension'))}'")
rows = at.execute(f"select {sys.argv[3]} from iceberg_scan('{sys.argv[2]}') order by 1")
print(json.dumps(rows.fetchall()))
""",
    "SPARK_ICEBERG": """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
at, place = SparkSession.builder.master("local[1]"), sys.argv[2].partition("/odradek/")[0]
for name, value in {
    "jars": ",".join(map(str, Path(sys.argv[1]).glob("*.jar"))), "ui.enabled": "false", "driver.host": "127.0.0.1",
    "driver.bindAddress": "127.0.0.1", "sql.shuffle.partitions": "1",
    "sql.catalog.odradek": "org.apache.iceberg.spark.SparkCatalog", "sql.catalog.odradek.type": "jdbc",
    "sql.catalog.odradek.uri": f"jdbc:sqlite:{place}/catalog.db", "sql.catalog.odradek.warehouse": place,
}.items():
    at = at.config(f"spark.{name}", value)
table = Path(sys.argv[2]).parent.parent.name
rows = at.getOrCreate().sql(f"select {sys.argv[3]} from odradek.odradek.{table} order by 1".replace('"', "`")).collect()
print(json.dumps([list(each) for each in rows]))
""",
}


def rows_of(table: Any, judge: str) -> list[list[Any]]:
    """The rows as a judge reads them from the newest metadata."""
    folder = os.environ[judge]
    command = [sys.executable, "-c", JUDGES[judge], folder, table.metadata_location.removeprefix("file://"), COLUMNS]
    ended = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": folder}, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.parametrize("judge", JUDGES)
def test_others_read_the_rows_of_the_topic(world: World, catalog: Any, judge: str) -> None:
    if not Path(os.environ.get(judge) or "/none").is_dir():
        pytest.skip(f"set {judge}")
    topic, expected = f"judged-{judge}", list[list[Any]]()
    for round_, fields in enumerate(("a int", "a long", "a long, b string")):
        values = [b'{"a": %d}' % number for number in range(10 * round_, 10 * round_ + 10)]
        world.send(topic, *values, new=not round_)
        expected += [
            [number, values[number % 10].hex().upper(), number] for number in range(10 * round_, 10 * round_ + 10)
        ]
        archiver = world.archiver(catalog, topic, values=lambda fields=fields: of_json(fields))
        assert archiver.round().rows == 10
    assert rows_of(catalog.load_table(archiver.name), judge) == expected
    assert upkeep.compact(catalog, archiver.name, min_files=2) > 0
    upkeep.expire(catalog, archiver.name, keep_ms=-1, keep_snapshots=1)
    assert rows_of(catalog.load_table(archiver.name), judge) == expected
