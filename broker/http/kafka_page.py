"""`/metrics/kafka`: names that dashboards and alert rules for Kafka know. And `/metrics/partitions`, at the end.

They are those that the rules for JMX exporters agree on, Strimzi's spelling of the rates by topic, and the names of
kafka_exporter for offsets and the lag of groups. `/metrics` has none of them, so that no sum counts anything twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..metrics.table import Labels, family, single
from ..services import Services
from ..topics.partition import Partition
from .group_lag import MAX_LABEL_CHARS, committed
from .own_page import is_controller
from .scrape import ScrapedBroker
from .topic_sums import BrokerSums, sum_topics


async def kafka_page(scraped: ScrapedBroker) -> Iterator[str]:
    """Return the pieces of the page."""
    return _page(scraped.services)


def _page(services: Services) -> Iterator[str]:
    sums = BrokerSums()
    yield from sum_topics(services, sums)
    yield from single("kafka_server_replicamanager_partitioncount", sums.held)
    yield from single("kafka_server_replicamanager_leadercount", sums.led)
    yield from single("kafka_server_replicamanager_underreplicatedpartitions", sums.under_replicated)
    yield from single("kafka_server_replicamanager_underminisrpartitioncount", sums.under_min_isr)
    yield from single("kafka_server_replicamanager_offlinereplicacount", sums.offline)
    failed = sum(not each.is_online for each in services.log_dirs.all)
    yield from single("kafka_log_logmanager_offlinelogdirectorycount", failed)
    yield from single("kafka_controller_kafkacontroller_activecontrollercount", int(is_controller(services)))
    yield from single("kafka_brokers", 1 if services.replicas is None else len(services.replicas.view.brokers))
    for name, attribute in (
        ("kafka_server_brokertopicmetrics_bytesin_total", "bytes_in"),
        ("kafka_server_brokertopicmetrics_messagesin_total", "records_in"),
        ("kafka_server_brokertopicmetrics_bytesout_total", "bytes_out"),
        ("kafka_topic_partitions", "partitions"),
    ):
        yield from family(name, (((row.name,), getattr(row, attribute)) for row in sums.topics))
    yield from _partitions(services)
    yield from _groups(services)


def _partitions(services: Services) -> Iterator[str]:
    partitions = services.topics.partitions()
    yield from family("kafka_log_log_size", ((key_of(each), each.log.size_bytes) for each in online(partitions)))
    oldest = ((key_of(each), each.log.log_start_offset) for each in online(partitions))
    yield from family("kafka_topic_partition_oldest_offset", oldest)
    current = ((key_of(each), each.high_watermark) for each in partitions)
    yield from family("kafka_topic_partition_current_offset", current)


class _Offset(NamedTuple):
    labels: Labels
    offset: int
    lag: int


def _groups(services: Services) -> Iterator[str]:
    """Yield the families of groups: of the first metrics.max.groups, because each of their partitions is a sample."""
    actors = [each for each in services.groups.groups.values() if len(each.key) <= MAX_LABEL_CHARS]
    actors = actors[: services.config.metrics_max_groups]
    yield from family("kafka_consumergroup_members", (((each.key,), len(each.state.roster)) for each in actors))
    found: list[_Offset] = []
    sums: dict[Labels, int] = {}
    for actor in actors:
        for topic, partition, offset in committed(services, actor):
            lag = max(partition.high_watermark - offset, 0)
            found.append(_Offset((actor.key, topic.name, str(partition.index)), offset, lag))
            sums[actor.key, topic.name] = sums.get((actor.key, topic.name), 0) + lag
            yield ""
    yield from family("kafka_consumergroup_lag_sum", sums.items())
    yield from family("kafka_consumergroup_current_offset", ((each.labels, each.offset) for each in found))
    yield from family("kafka_consumergroup_lag", ((each.labels, each.lag) for each in found))
    dead = [each for each in services.coordinators.dead_letter_counts().items() if len(each[0]) <= MAX_LABEL_CHARS]
    dead = dead[: services.config.metrics_max_groups]
    for name, attribute in (
        ("deadletterqueuerecordcount", "records"),
        ("deadletterqueuetotalproducerequests", "requests"),
        ("deadletterqueuefailedproducerequests", "failed_requests"),
    ):
        samples = (((group,), getattr(counts, attribute)) for group, counts in dead)
        yield from family(f"kafka_server_sharegroupmetrics_{name}_total", samples)


async def partition_page(scraped: ScrapedBroker) -> Iterator[str]:
    """Return the pieces of the page."""
    return _partition_page(scraped.services.topics.partitions())


def _partition_page(partitions: list[Partition]) -> Iterator[str]:
    yield from family(
        "odradek_partition_log_start_offset", ((key_of(each), each.log.log_start_offset) for each in online(partitions))
    )
    yield from family("odradek_partition_high_watermark", ((key_of(each), each.high_watermark) for each in partitions))
    yield from family(
        "odradek_partition_log_bytes", ((key_of(each), each.log.size_bytes) for each in online(partitions))
    )
    yield from family(
        "odradek_partition_records_in_total", ((key_of(each), each.received.records) for each in partitions)
    )


def key_of(partition: Partition) -> tuple[str, str]:
    """Return the labels of a partition."""
    return partition.topic, str(partition.index)


def online(partitions: list[Partition]) -> Iterator[Partition]:
    """Yield the partitions whose logs can be read at this moment: a disk may fail between two turns."""
    return (each for each in partitions if each.is_online)
