"""What docs/schemas.md shows is done in its order, over one registry."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from odradek.testing import LocalKafka, LocalSchemaRegistry
from odradek.tests.support.documents.page import Reader

PAGE = Path(__file__).parents[2] / "docs" / "schemas.md"
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE))

SECTIONS_IN_ORDER = ("Start one", "Register and look up", "Write and read records from Python", "On the command line")


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page asks by curl, and there is none")
def test_the_page_is_done_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("fastavro", "duckdb", "confluent_kafka"):
        pytest.importorskip(package)
    with LocalKafka() as kafka, LocalSchemaRegistry(kafka) as registry:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVER", kafka.address)
        own = {"127.0.0.1:9092": kafka.address, "http://127.0.0.1:8081": registry.url, "curl ": "curl -s "}
        # The page reads from the usual address, and for ever.
        own |= {'"flights", value_d': f'"flights", bootstrap_servers="{kafka.address}", value_d'}
        own |= {"        ...  #": "        break  #"}
        reader = Reader(tmp_path, own, {"schema": '"string"'})
        for section in SECTIONS_IN_ORDER:
            reader.follow(SECTIONS[section])
