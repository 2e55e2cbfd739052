"""DuckDB's own Iceberg reader finds the rows that the topic has, also after a compaction.

DUCKDB_ICEBERG is a folder of `pip install --target FOLDER duckdb==1.5.5 duckdb-extension-iceberg==1.5.5
duckdb-extension-avro==1.5.5`: the extension is there for older versions than the one that `odradek[sql]` brings.
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
from odradek.tests.support.clients.archive_world import World

SCRIPT = """
import json, sys, duckdb
from pathlib import Path
at = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "iceberg"):
    at.execute(f"load '{next(Path(sys.argv[1]).glob(f'duckdb_extension_{name}/**/*.duckdb_extension'))}'")
rows = at.execute(f"select partition, \\"offset\\", value::varchar from iceberg_scan('{sys.argv[2]}') order by all")
print(json.dumps(rows.fetchall()))
"""


def rows_of(table: Any) -> list[list[Any]]:
    """The rows as DuckDB reads them from the newest metadata."""
    folder = os.environ["DUCKDB_ICEBERG"]
    command = [sys.executable, "-c", SCRIPT, folder, table.metadata_location.removeprefix("file://")]
    ended = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": folder}, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.skipif(
    not Path(os.environ.get("DUCKDB_ICEBERG") or "/none").is_dir(), reason="set DUCKDB_ICEBERG (DuckDB 1.5.5)"
)
def test_duckdb_reads_the_rows_of_the_topic(world: World, catalog: Any) -> None:
    expected: list[list[Any]] = []
    for round_ in range(3):
        world.fill("judged", 20, partitions=2, new=not round_)
        expected += [[number % 2, 10 * round_ + number // 2, str(number)] for number in range(20)]
        archiver = world.archiver(catalog, "judged")
        assert archiver.round().rows == 20
    assert rows_of(catalog.load_table(archiver.name)) == sorted(expected)
    assert upkeep.compact(catalog, archiver.name, min_files=2) > 0
    assert rows_of(catalog.load_table(archiver.name)) == sorted(expected)
