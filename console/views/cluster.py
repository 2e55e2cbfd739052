"""The cluster: its brokers with their disks and configs, partitions that need somebody, and what moves."""

from __future__ import annotations

from ...client import ConfigResource
from ...web.exchange import HttpError, Response
from ..visit import Visit, or_told
from .topics import config_rows

MAX_ROWS = 500
_BROKER = 2


async def overview(visit: Visit) -> Response:
    """Show brokers, disks, partitions that are behind, and reassignments."""
    admin = await visit.admin()
    cluster = await admin.describe_cluster()
    topics = await admin.describe_topics()
    problems: list[str] = []
    dirs = await or_told(admin.describe_log_dirs(), [], "The disks are not known", problems)
    moves = await or_told(admin.list_partition_reassignments(), {}, "", [])
    features = await or_told(admin.describe_features(), {}, "The features are not known", problems)
    behind = [
        (topic.name, each)
        for topic in topics.values()
        for each in topic.partitions
        if each.leader < 0 or len(each.isr) < len(each.replicas)
    ]
    led: dict[int, int] = {}
    for each in (each for topic in topics.values() for each in topic.partitions):
        led[each.leader] = led.get(each.leader, 0) + 1
    return visit.page(
        "cluster.html", "Cluster", cluster=cluster, dirs=dirs, moves=moves, features=features, led=led,
        behind=behind[:MAX_ROWS], behind_count=len(behind), problems=problems, topics=len(topics),
        partitions=sum(len(each.partitions) for each in topics.values()),
    )  # fmt: skip


async def health(visit: Visit) -> Response:
    """Show what `odradek cluster health` tells."""
    admin = await visit.admin()
    return visit.page("health.html", "Health", findings=await admin.check_health())


async def broker(visit: Visit) -> Response:
    """Show the configs of a broker."""
    (text,) = visit.names
    admin = await visit.admin()
    known = {str(each.node_id) for each in (await admin.describe_cluster()).nodes}
    if text not in known:
        raise HttpError(404, f"There is no broker {text}.")
    resource = ConfigResource.broker(int(text))
    found = (await admin.describe_configs([resource]))[resource]
    rows = [row for source in (_BROKER, 3, 4) for row in config_rows(found.values(), source) if row.is_changed]
    rows += [row for row in config_rows(found.values(), 5) if row.is_changed]
    return visit.page("configs.html", f"Configs of broker {text}", name=text, rows=rows, resource="broker",
                      back="/cluster")  # fmt: skip
