"""Waiting for a broker that is starting, as tests and containers do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Unpack

from ..errors import KafkaError, NoBrokerReachable
from .cluster import Cluster
from .metadata import Node
from .options import ClusterOptions, check_numbers, security_options
from .security import SecurityArguments

_PAUSE_S = 0.05


async def wait_for_broker(
    bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092",
    *,
    timeout_ms: float = 30_000,
    brokers: int = 1,
    **security: Unpack[SecurityArguments],
) -> list[Node]:
    """Wait until so many brokers of the cluster are known, and one of them answers. Return the known brokers.

    Raises NoBrokerReachable after `timeout_ms`, with the last reason.
    """
    check_numbers(timeout_ms=timeout_ms)
    options = ClusterOptions(
        bootstrap_servers,
        client_id="odradek-wait",
        request_timeout_ms=max(timeout_ms, 1),
        security=security_options("wait_for_broker", security),
    )
    loop = asyncio.get_running_loop()
    deadline, why, listens = loop.time() + timeout_ms / 1000, "no answer", False
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                cluster = await Cluster.open(options)
            nodes = list(cluster.view.nodes.values())
            await cluster.close()
            if len(nodes) >= brokers:
                return nodes
            why, listens = f"{len(nodes)} of {brokers} brokers are there", len(nodes) > 0
        except TimeoutError:
            pass
        except KafkaError as error:
            if not error.retriable:
                raise
            why, listens = error.message, True
            if isinstance(error, NoBrokerReachable):
                why, listens = error.tried, error.listens
        if loop.time() + _PAUSE_S > deadline:
            raise NoBrokerReachable(f"the cluster within {timeout_ms:g} ms: {why}", listens=listens)
        await asyncio.sleep(_PAUSE_S)
