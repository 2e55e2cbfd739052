"""Readiness: why clients are not to be sent to a broker now. `/ready` and the metric `odradek_ready` tell it.

Being alive is another question, which any answer of the event loop settles. It does not depend on disks or ZooKeeper:
a supervisor that restarts the broker for those would only add a recovery.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..services import Services


def unready_reasons(services: Services, is_listening: bool) -> Iterator[str]:
    """Yield each reason why the broker is not ready; none: it is."""
    if not is_listening:
        yield "the broker does not listen yet"
    for name, shards in (("groups", services.groups.shards), ("transactions", services.transactions.shards)):
        if shards.loading:
            yield f"{len(shards.loading)} partitions of the coordinator of {name} are loading"
    for each in services.log_dirs.all:
        if each.failure is not None:
            yield f"data directory {each.path} is offline: {each.failure}"
    if services.cluster is not None and services.cluster.unready_reason is not None:
        yield services.cluster.unready_reason
    if services.replicas is not None and not services.replicas.is_ready.is_set():
        yield "the controller has not told this broker of its partitions"
