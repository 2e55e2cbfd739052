"""A broker in a thread, and a registry over it in the test's own loop."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.registry import LogOptions, Registry, RegistryConfig
from odradek.tests.support.brokers.process import FEW_PARTITIONS


@dataclass(frozen=True)
class Client:
    """A client of a registry by plain HTTP."""

    url: str

    async def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return status and JSON of an answer."""
        return await asyncio.to_thread(self._ask, method, path, body, headers or {})

    def _ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        given = {"content-type": "application/vnd.schemaregistry.v1+json", **headers}
        request = urllib.request.Request(self.url + path, method=method, data=data, headers=given)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    config = BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",), log_dirs=(str(tmp_path),), **FEW_PARTITIONS)
    with Broker(config) as broker:
        yield broker


@pytest.fixture
async def registry(broker: Broker) -> AsyncIterator[Registry]:
    async with Registry(RegistryConfig(LogOptions(broker.address), port=0)) as registry:
        yield registry


@pytest.fixture
def ask(registry: Registry) -> Client:
    return Client(registry.url)
