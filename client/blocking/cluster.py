"""Waiting for a cluster, for programs without asyncio."""

from __future__ import annotations

from ..core import cluster
from .derivation import waiting_function

wait_for_broker = waiting_function(cluster.wait_for_broker)
