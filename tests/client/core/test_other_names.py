"""A method of another client, or an argument that is not taken: the error says what to call."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from odradek import client
from odradek.client import blocking
from odradek.client.core import other_names
from odradek.tests.support.cluster_thread import cluster_in_thread
from odradek.tests.support.fake_cluster import FakeCluster

INSTEAD: dict[str, str] = vars(other_names)["_METHODS_INSTEAD"]
KINDS = [getattr(home, name) for home in (client, blocking) for name in ("Admin", "Consumer", "Producer")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", INSTEAD)
def test_a_method_of_another_client_is_told_what_to_call(kind: Any, name: str) -> None:
    if not hasattr(kind, name):
        with pytest.raises(AttributeError, match=re.escape(f"{kind.__name__!r} object has no attribute {name!r}: ")):
            getattr(kind(), name)


@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_named_instead_exists(name: str) -> None:
    for called in re.findall(r"(?:Admin\.)?\b([a-z_]+)\(", INSTEAD[name]):
        assert any(hasattr(kind, called) for kind in KINDS), called


async def pairs() -> AsyncIterator[tuple[None, bytes]]:
    yield None, b"x"


async def test_send_many_says_that_it_takes_no_async_generator_and_flush_no_timeout() -> None:
    timeout: Any = 10
    records: Any = pairs()
    async with FakeCluster({"t": 1}) as cluster, client.Producer(cluster.address) as producer:
        with pytest.raises(TypeError, match="not an async one: write `async for"):
            await producer.send_many("t", records)
        with pytest.raises(TypeError, match="flush takes no timeout"):
            await producer.flush(timeout)


def test_the_blocking_producer_says_so_too() -> None:
    timeout: Any = 10
    records: Any = pairs()
    with cluster_in_thread({"t": 1}) as cluster, blocking.Producer(cluster.address) as producer:
        with pytest.raises(TypeError, match="not an async one: write `async for"):
            producer.send_many("t", records)
        with pytest.raises(TypeError, match="flush takes no timeout"):
            producer.flush(timeout)
