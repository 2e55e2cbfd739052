"""`odradek cluster`: what a cluster is made of, whether all of it works, and where its leaders and replicas are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .cluster_moves import drain, elect_leaders, reassign
from .cluster_start import start
from .lag import Lags, replica_lags
from .output import print_rows, row_options
from .session import bootstrap_option, with_admin

if TYPE_CHECKING:
    from ..client import Admin
    from ..client.admin.health import PlacedPartition
    from ..client.core.descriptions import ClusterDescription
    from ..client.core.metadata import Node, PartitionInfo, TopicInfo

_BROKER = ("cluster", "broker", "host", "port", "rack", "controller", "partitions_led")
_SHARE = (
    *("broker", "rack", "controller", "leaders", "preferred", "replicas", "out_of_sync"),
    *("under_replicated", "under_min_isr", "max_lag"),
)
_CHECK = ("check", "healthy", "finding", "result", "remedy")
_LISTED_BROKER = ("kind", "broker", "address", "rack", "controller")
_LISTED_PARTITION = ("kind", "topic", "partition", "leader", "replicas", "isr")
_Row = tuple[Any, ...]


@click.group(short_help="Run and look at a cluster, and move its leaders and replicas.")
def command() -> None:
    """Run and look at a cluster, and move its leaders and replicas.

    \b
    Examples:
      odradek cluster start --nodes 3
      odradek cluster list
      odradek cluster info
      odradek cluster describe
      odradek cluster health
    """


for each in (start, elect_leaders, reassign, drain):
    command.add_command(each)


@command.command(short_help="Print the brokers of the cluster.")
@row_options
@bootstrap_option
def info() -> None:
    """Print every broker with the id of its cluster, and the address at which clients are told to reach it.

    \b
    Examples:
      odradek cluster info
      odradek cluster info --json -b kafka-1:9092
    """

    async def work(admin: Admin) -> list[_Row]:
        cluster = await admin.describe_cluster()
        topics = (await admin.describe_topics()).values()
        return [_broker(cluster, node, list(topics)) for node in cluster.nodes]

    print_rows(_BROKER, with_admin(work))


def _broker(cluster: ClusterDescription, node: Node, topics: list[TopicInfo]) -> _Row:
    led = sum(each.leader == node.node_id for topic in topics for each in topic.partitions)
    is_controller = node.node_id == cluster.controller_id
    return cluster.cluster_id, node.node_id, node.host, node.port, node.rack, is_controller, led


@command.command("list", short_help="Print brokers, topics and partitions, all at a glance.")
@click.option("--internal", is_flag=True, help="Also internal topics, such as __consumer_offsets.")
@row_options
@bootstrap_option
def list_(internal: bool) -> None:
    """Print every broker, then every partition with its leader, its replicas and those that are in sync.

    In a pipe each line begins with its kind, broker or partition.

    \b
    Examples:
      odradek cluster list
      odradek cluster list | grep ^partition
    """

    async def work(admin: Admin) -> tuple[list[_Row], list[_Row]]:
        cluster, topics = await admin.describe_cluster(), (await admin.describe_topics()).values()
        brokers = [_listed_broker(cluster, node) for node in cluster.nodes]
        shown = sorted((each for each in topics if internal or not each.is_internal), key=lambda each: each.name)
        return brokers, [_listed_partition(topic.name, each) for topic in shown for each in topic.partitions]

    brokers, partitions = with_admin(work)
    for columns, found in ((_LISTED_BROKER, brokers), (_LISTED_PARTITION, partitions)):
        print_rows(columns, found)


def _listed_broker(cluster: ClusterDescription, node: Node) -> _Row:
    is_controller = node.node_id == cluster.controller_id
    return "broker", node.node_id, f"{node.host}:{node.port}", node.rack, is_controller


def _listed_partition(topic: str, each: PartitionInfo) -> _Row:
    leader = None if each.leader < 0 else each.leader
    return "partition", topic, each.partition, leader, each.replicas, each.isr


@command.command(short_help="Print what each broker leads, holds and lacks.")
@row_options
@bootstrap_option
def describe() -> None:
    """Print for every broker how many partitions it leads, of how many it is the preferred leader, how many replicas it
    holds, and how many of these are not in sync. Of the partitions that it leads: how many lack replicas in sync, and
    how many have fewer than min.insync.replicas. `max_lag` is by how many records its replicas are behind their leaders
    at most, empty where it does not answer. A broker that is not there, and holds replicas, is printed too.

    \b
    Examples:
      odradek cluster describe
      odradek topics describe --under-replicated
    """

    async def work(admin: Admin) -> list[_Row]:
        from ..client import TopicPartition

        cluster = await admin.describe_cluster()
        placed = await admin.placed_partitions(list((await admin.describe_topics()).values()))
        partitions = {TopicPartition(each.topic, each.partition.partition): each.partition for each in placed}
        lags = await replica_lags(admin, partitions)
        racks = {node.node_id: node.rack for node in cluster.nodes}
        brokers = sorted(racks.keys() | {broker for each in placed for broker in each.partition.replicas})
        return [_share(broker, racks.get(broker), cluster.controller_id, placed, lags) for broker in brokers]

    print_rows(_SHARE, with_admin(work))


def _share(broker: int, rack: str | None, controller: int, placed: list[PlacedPartition], lags: Lags) -> _Row:
    held = [each.partition for each in placed if broker in each.partition.replicas]
    led = [each for each in placed if each.partition.leader == broker]
    preferred = sum(each.replicas[0] == broker for each in held)
    lacking = sum(broker not in each.isr for each in held)
    behind = sum(each.is_under_replicated for each in led), sum(each.is_under_min_isr for each in led)
    max_lag = max((lag for (holder, _), lag in lags.items() if holder == broker), default=None)
    return broker, rack, broker == controller, len(led), preferred, len(held), lacking, *behind, max_lag


@command.command(short_help="Say whether the cluster is healthy.")
@row_options
@bootstrap_option
def health() -> None:
    """Say whether there is a controller, every partition has a leader, all its replicas and enough of them in sync
    for acks=all, and every data directory works and has room. Also told: disks that are full soon, groups that lose
    unread records to retention, transactions that are stuck, certificates that end.

    Status 1 if something does not work now; warnings do not count.

    \b
    Examples:
      odradek cluster health
      odradek cluster health --json
    """
    found = with_admin(lambda admin: admin.check_health())
    rows = ((each.check, each.healthy, each.finding, each.result, each.remedy) for each in found)
    print_rows(_CHECK, rows)
    if not all(each.healthy for each in found):
        raise click.exceptions.Exit(1)
