"""`odradek cluster`: what a cluster is made of, whether all of it works, and where its leaders and replicas are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .cluster_moves import drain, elect_leaders, reassign
from .cluster_start import start
from .lag import Lags, replica_lags
from .output import print_rows, row_options
from .session import bootstrap_option, with_admin

if TYPE_CHECKING:
    from ..client import Admin
    from ..client.admin.brokers import LogDir
    from ..client.core.descriptions import ClusterDescription
    from ..client.core.metadata import Node, PartitionInfo, TopicInfo

_BROKER = ("cluster", "broker", "host", "port", "rack", "controller", "partitions_led")
_SHARE = (
    *("broker", "rack", "controller", "leaders", "preferred", "replicas", "out_of_sync"),
    *("under_replicated", "under_min_isr", "max_lag"),
)
_CHECK = ("check", "healthy", "finding")
_LISTED_BROKER = ("kind", "broker", "address", "rack", "controller")
_LISTED_PARTITION = ("kind", "topic", "partition", "leader", "replicas", "isr")
_MIN_ISR = "min.insync.replicas"
_Row = tuple[Any, ...]
# The largest batch of a default config has 1 MB. A disk that cannot take it, its index and what clients commit is full.
_FULL_BELOW_BYTES = 2 << 20
# How many partitions a finding names.
_NAMED = 3


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
        placed = await _placed(admin, list((await admin.describe_topics()).values()))
        partitions = {TopicPartition(each.topic, each.partition.partition): each.partition for each in placed}
        lags = await replica_lags(admin, partitions)
        racks = {node.node_id: node.rack for node in cluster.nodes}
        brokers = sorted(racks.keys() | {broker for each in placed for broker in each.partition.replicas})
        return [_share(broker, racks.get(broker), cluster.controller_id, placed, lags) for broker in brokers]

    print_rows(_SHARE, with_admin(work))


@dataclass(frozen=True, slots=True)
class _Placed:
    """A partition of a topic with its min.insync.replicas."""

    topic: str
    partition: PartitionInfo
    min_isr: int

    @property
    def is_under_replicated(self) -> bool:
        return bool(self.partition.offline) or len(self.partition.isr) < len(self.partition.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether acks=all is rejected. As in Kafka, more than there are replicas is never asked for."""
        return len(self.partition.isr) < min(self.min_isr, len(self.partition.replicas))

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition.partition}"


async def _placed(admin: Admin, topics: list[TopicInfo]) -> list[_Placed]:
    """Return every partition. Only topics that lack replicas in sync are asked for their configs, one by one."""
    from ..client import ConfigResource

    lacking = [each.name for each in topics if any(len(p.isr) < len(p.replicas) for p in each.partitions)]
    configs = await admin.describe_configs([ConfigResource.topic(each) for each in lacking], names=[_MIN_ISR])
    min_isr = {resource.name: int(found[_MIN_ISR].value or 1) for resource, found in configs.items()}
    return [_Placed(topic.name, each, min_isr.get(topic.name, 1)) for topic in topics for each in topic.partitions]


def _share(broker: int, rack: str | None, controller: int, placed: list[_Placed], lags: Lags) -> _Row:
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
    for acks=all, and every data directory works and has room. Status 1 if something is not healthy.

    \b
    Examples:
      odradek cluster health
      odradek cluster health --json
    """
    found = with_admin(_check)
    print_rows(_CHECK, ({"check": each.check, "healthy": each.healthy, "finding": each.finding} for each in found))
    if not all(each.healthy for each in found):
        raise click.exceptions.Exit(1)


@dataclass(frozen=True, slots=True)
class _Health:
    check: str
    healthy: bool
    finding: str


async def _check(admin: Admin) -> list[_Health]:
    cluster = await admin.describe_cluster()
    placed = await _placed(admin, list((await admin.describe_topics()).values()))
    directories = await admin.describe_log_dirs(partitions=[])
    has_controller = any(node.node_id == cluster.controller_id for node in cluster.nodes)
    controller = f"broker {cluster.controller_id} of {len(cluster.nodes)}" if has_controller else "there is none"
    return [_Health("controller", has_controller, controller), *_partitions(placed), _directories(directories)]


def _partitions(placed: list[_Placed]) -> Iterator[_Health]:
    leaderless = [str(each) for each in placed if each.partition.leader < 0]
    behind = [str(each) for each in placed if each.is_under_replicated]
    too_few = [str(each) for each in placed if each.is_under_min_isr]
    led = f"all {len(placed)} partitions have one"
    yield _Health("leaders", not leaderless, _named("without a leader", leaderless) or led)
    yield _Health("replicas", not behind, _named("with replicas missing", behind) or "all are in sync")
    yield _Health(_MIN_ISR, not too_few, _named("that reject acks=all", too_few) or "all partitions have as many")


def _directories(directories: list[LogDir]) -> _Health:
    broken = [f"{each.path} of broker {each.node_id} ({each.error.name})" for each in directories if each.error]
    for each in directories:
        if each.usable_bytes is not None and each.usable_bytes < _FULL_BELOW_BYTES:
            left = f"{each.usable_bytes / 1e6:.1f} MB are free"
            broken.append(f"the disk of {each.path} of broker {each.node_id} is full: {left}")
    works = f"all {len(directories)} work" if len(directories) > 1 else "the only one works"
    return _Health("data directories", not broken, "; ".join(broken) or works)


def _named(what: str, partitions: list[str]) -> str:
    if not partitions:
        return ""
    more = ", ..." if len(partitions) > _NAMED else ""
    return f"{len(partitions)} {what}: {', '.join(partitions[:_NAMED])}{more}"
