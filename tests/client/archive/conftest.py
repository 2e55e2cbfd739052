"""A broker in a thread for all tests of archives, and a catalog in SQLite for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg", reason="pip install 'odradek[archive]'")
pytest.importorskip("sqlalchemy", reason="pip install 'odradek[archive]'")

from odradek.client.archive.places import catalog_of
from odradek.tests.support.clients.archive_world import FOLDER, World
from odradek.tests.support.documents.command import threaded_broker


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with threaded_broker(tmp_path_factory.mktemp("archived")) as broker:
        yield World(broker.address)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    opened = catalog_of(str(tmp_path / FOLDER), create=True)
    yield opened
    opened.close()
