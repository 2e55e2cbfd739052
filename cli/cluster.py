"""`odradek cluster`: what a cluster is made of, whether all of it works, and where its leaders and replicas are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .cluster_moves import drain, elect_leaders, reassign
from .cluster_start import start
from .output import Rows, row_options
from .session import bootstrap_option, with_admin

if TYPE_CHECKING:
    from ..client import Admin
    from ..client.admin.log_dirs import LogDir
    from ..client.descriptions import ClusterDescription
    from ..client.metadata import Node, PartitionInfo, TopicInfo

_BROKER = ("cluster", "broker", "host", "port", "rack", "controller", "partitions_led")
_SHARE = ("broker", "rack", "controller", "leaders", "preferred", "replicas", "out_of_sync")
_CHECK = ("check", "healthy", "finding")
# How many partitions a finding names.
_NAMED = 3


@click.group(short_help="Run and look at a cluster, and move its leaders and replicas.")
def command() -> None:
    """Run and look at a cluster, and move its leaders and replicas.

    \b
    Examples:
      odradek cluster start --nodes 3
      odradek cluster info
      odradek cluster describe
      odradek cluster health
    """


for each in (start, elect_leaders, reassign, drain):
    command.add_command(each)


@command.command(short_help="Print the brokers of the cluster.")
@row_options
@bootstrap_option
def info(as_json: bool, bootstrap_server: str) -> None:
    """Print every broker with the id of its cluster, and the address at which clients are told to reach it.

    \b
    Examples:
      odradek cluster info
      odradek cluster info --json -b kafka-1:9092
    """

    async def work(admin: Admin) -> list[dict[str, Any]]:
        cluster = await admin.describe_cluster()
        topics = (await admin.describe_topics()).values()
        return [_broker(cluster, node, list(topics)) for node in cluster.nodes]

    with Rows(_BROKER, as_json) as rows:
        for row in with_admin(bootstrap_server, work):
            rows.add(row)


def _broker(cluster: ClusterDescription, node: Node, topics: list[TopicInfo]) -> dict[str, Any]:
    led = sum(each.leader == node.node_id for topic in topics for each in topic.partitions)
    is_controller = node.node_id == cluster.controller_id
    values = (cluster.cluster_id, node.node_id, node.host, node.port, node.rack, is_controller, led)
    return dict(zip(_BROKER, values, strict=True))


@command.command(short_help="Print what each broker leads, holds and lacks.")
@row_options
@bootstrap_option
def describe(as_json: bool, bootstrap_server: str) -> None:
    """Print for every broker how many partitions it leads, of how many it is the preferred leader, how many replicas it
    holds, and how many of these are not in sync. A broker that is not there, and holds replicas, is printed too.

    \b
    Examples:
      odradek cluster describe
      odradek topics describe --under-replicated
    """

    async def work(admin: Admin) -> list[dict[str, Any]]:
        cluster = await admin.describe_cluster()
        partitions = [each for topic in (await admin.describe_topics()).values() for each in topic.partitions]
        racks = {node.node_id: node.rack for node in cluster.nodes}
        brokers = sorted(racks.keys() | {broker for each in partitions for broker in each.replicas})
        return [_share(broker, racks.get(broker), cluster.controller_id, partitions) for broker in brokers]

    with Rows(_SHARE, as_json) as rows:
        for row in with_admin(bootstrap_server, work):
            rows.add(row)


def _share(broker: int, rack: str | None, controller: int, partitions: list[PartitionInfo]) -> dict[str, Any]:
    held = [each for each in partitions if broker in each.replicas]
    led = sum(each.leader == broker for each in partitions)
    preferred = sum(each.replicas[0] == broker for each in held)
    lacking = sum(broker not in each.isr for each in held)
    values = (broker, rack, broker == controller, led, preferred, len(held), lacking)
    return dict(zip(_SHARE, values, strict=True))


@command.command(short_help="Say whether the cluster is healthy.")
@row_options
@bootstrap_option
def health(as_json: bool, bootstrap_server: str) -> None:
    """Say whether there is a controller, every partition has a leader and all its replicas, and every data directory
    works. Status 1 if something is not healthy.

    \b
    Examples:
      odradek cluster health
      odradek cluster health --json
    """
    found = with_admin(bootstrap_server, _check)
    with Rows(_CHECK, as_json) as rows:
        for each in found:
            rows.add({"check": each.check, "healthy": each.healthy, "finding": each.finding})
    if not all(each.healthy for each in found):
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class _Health:
    check: str
    healthy: bool
    finding: str


async def _check(admin: Admin) -> list[_Health]:
    cluster = await admin.describe_cluster()
    topics = list((await admin.describe_topics()).values())
    directories = await admin.describe_log_dirs(partitions=[])
    has_controller = any(node.node_id == cluster.controller_id for node in cluster.nodes)
    controller = f"broker {cluster.controller_id} of {len(cluster.nodes)}" if has_controller else "there is none"
    return [_Health("controller", has_controller, controller), *_partitions(topics), _directories(directories)]


def _partitions(topics: list[TopicInfo]) -> Iterator[_Health]:
    every = [(topic.name, each) for topic in topics for each in topic.partitions]
    leaderless = [f"{name}-{each.partition}" for name, each in every if each.leader < 0]
    behind = [f"{name}-{each.partition}" for name, each in every if each.offline or len(each.isr) < len(each.replicas)]
    led = f"all {len(every)} partitions have one"
    yield _Health("leaders", not leaderless, _named("without a leader", leaderless) or led)
    yield _Health("replicas", not behind, _named("with replicas missing", behind) or "all are in sync")


def _directories(directories: list[LogDir]) -> _Health:
    broken = [f"{each.path} of broker {each.node_id} ({each.error.name})" for each in directories if each.error]
    works = f"all {len(directories)} work" if len(directories) > 1 else "the only one works"
    return _Health("data directories", not broken, "; ".join(broken) or works)


def _named(what: str, partitions: list[str]) -> str:
    if not partitions:
        return ""
    more = ", ..." if len(partitions) > _NAMED else ""
    return f"{len(partitions)} {what}: {', '.join(partitions[:_NAMED])}{more}"
