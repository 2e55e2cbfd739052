"""The table of the broker's own metrics: name, type, labels and help. Pages, board, alerts and documents go by it.

Names follow Prometheus' conventions: the prefix `odradek_`, base units, `_total` for counters. Labels are bounded:
topics and groups by a config, the rest by tables of Kafka. No client id, member id or address is a label.

`family` writes Prometheus' text format, version 0.0.4, in pieces. A family is one metric with all its samples. Labels
are escaped, because names of topics and groups come from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple


class Metric(NamedTuple):
    """One row."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str


GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
_TOPIC, _PARTITION, _GROUP, _DIR = ("topic",), ("topic", "partition"), ("group",), ("dir",)

# fmt: off
_ROWS = (
    # -- The process
    Metric("odradek_build_info", GAUGE, ("version", "python"), "1, with the versions of Odradek and Python."),
    Metric("odradek_cluster_info", GAUGE, ("cluster_id", "broker_id"),
        "1, with the ids of the cluster and of this broker."),
    Metric("odradek_ready", GAUGE, (), "1 if clients may be sent to this broker, as /ready says, else 0."),
    Metric("odradek_event_loop_cpu_seconds_total", COUNTER, (),
        "CPU time of the thread that answers all clients; a rate of 1 is a busy broker."),
    Metric("process_cpu_seconds_total", COUNTER, (), "CPU time of the process."),
    Metric("process_resident_memory_bytes", GAUGE, (), "Memory of the process."),
    Metric("process_open_fds", GAUGE, (), "Open files and connections of the process."),
    Metric("process_max_fds", GAUGE, (), "How many of them the system allows."),
    # -- Requests
    Metric("odradek_connections", GAUGE, (), "Open connections of clients."),
    Metric("odradek_requests_total", COUNTER, ("api",), "Requests by API."),
    Metric("odradek_request_errors_total", COUNTER, ("api", "error"),
        "Requests that failed as a whole, and rejected batches of Produce, by error."),
    Metric("odradek_request_duration_seconds", HISTOGRAM, ("api",),
        "Time from a request to its response, with its wait for data or other members. One request in 32 is timed."),
    Metric("odradek_purgatory_waiting", GAUGE, (), "Requests that wait for data, for followers or for a deadline."),
    # -- Topics
    Metric("odradek_topics", GAUGE, (), "Topics, internal ones too."),
    Metric("odradek_topics_summed", GAUGE, (),
        "Topics beyond metrics.max.topics, whose metrics are summed under one label."),
    Metric("odradek_topic_bytes_in_total", COUNTER, _TOPIC, "Bytes of batches from producers."),
    Metric("odradek_topic_records_in_total", COUNTER, _TOPIC, "Records from producers."),
    Metric("odradek_topic_bytes_out_total", COUNTER, _TOPIC, "Bytes of batches to consumers."),
    Metric("odradek_log_bytes", GAUGE, _TOPIC, "Size of the logs."),
    # -- Partitions
    Metric("odradek_partitions", GAUGE, (), "Partitions that this broker holds and serves."),
    Metric("odradek_leaders", GAUGE, (), "Partitions that this broker leads."),
    Metric("odradek_partitions_offline", GAUGE, (), "Partitions of this broker that its disk has failed."),
    Metric("odradek_partitions_under_replicated", GAUGE, (), "Partitions led here whose ISR lacks a replica."),
    Metric("odradek_partitions_under_min_isr", GAUGE, (), "Partitions led here that reject acks=all."),
    Metric("odradek_damaged_places", GAUGE, (), "Places in the logs of this broker that were found to be damaged."),
    Metric("odradek_active_controller", GAUGE, (),
        "1 if this broker is the controller, else 0. The sum over a cluster must be 1."),
    # -- Groups
    Metric("odradek_groups", GAUGE, (), "Consumer groups that this broker coordinates."),
    Metric("odradek_groups_summed", GAUGE, (),
        "Groups beyond metrics.max.groups, whose metrics are summed under one label."),
    Metric("odradek_group_members", GAUGE, _GROUP, "Members of the group."),
    Metric("odradek_group_generation", GAUGE, _GROUP, "Generation of the group: it grows with every rebalance."),
    Metric("odradek_group_lag_records", GAUGE, _GROUP,
        "Records between committed offsets and high watermarks, of partitions that this broker holds."),
    Metric("odradek_group_lag_seconds", GAUGE, _GROUP,
        "Age of the oldest record that the group has not committed, by its timestamp."),
    Metric("odradek_group_retention_used_ratio", GAUGE, _GROUP,
        "How near the oldest such record is to its deletion by retention.ms or retention.bytes; 1: it may go."),
    Metric("odradek_group_lost_records", GAUGE, _GROUP, "Records that were deleted before the group committed them."),
    Metric("odradek_share_group_records", GAUGE, ("group", "state"),
        "Records of the share group in flight: held by a member, or being written as dead letters."),
    Metric("odradek_share_group_dead_letters_total", COUNTER, ("group", "cause"),
        "Records of the share group that no member gets any more: rejected by a member, or delivered too often."),
    Metric("odradek_share_group_dead_letters_lost_total", COUNTER, _GROUP,
        "Such records without a dead letter in the group's topic; the log says why."),
    Metric("odradek_transactions_open", GAUGE, (), "Transactions under way that this broker coordinates."),
    # -- Disks
    Metric("odradek_log_dir_offline", GAUGE, _DIR, "1 if the data directory has failed, else 0."),
    Metric("odradek_disk_free_bytes", GAUGE, _DIR, "Free space of the disk of a data directory."),
    Metric("odradek_disk_size_bytes", GAUGE, _DIR, "Size of that disk."),
    Metric("odradek_segment_leases", GAUGE, (), "Leases of segments that readers on this machine hold."),
    # -- /metrics/partitions
    Metric("odradek_partition_log_start_offset", GAUGE, _PARTITION, "First offset of the log."),
    Metric("odradek_partition_high_watermark", GAUGE, _PARTITION, "Offset up to which consumers read."),
    Metric("odradek_partition_log_bytes", GAUGE, _PARTITION, "Size of the log."),
    Metric("odradek_partition_records_in_total", COUNTER, _PARTITION, "Records from producers."),
    # -- /metrics/kafka: names that dashboards and alert rules for Kafka know
    Metric("kafka_server_replicamanager_partitioncount", GAUGE, (), "Partitions of this broker."),
    Metric("kafka_server_replicamanager_leadercount", GAUGE, (), "Partitions that this broker leads."),
    Metric("kafka_server_replicamanager_underreplicatedpartitions", GAUGE, (),
        "Partitions led here whose ISR lacks a replica."),
    Metric("kafka_server_replicamanager_underminisrpartitioncount", GAUGE, (),
        "Partitions led here that reject acks=all."),
    Metric("kafka_server_replicamanager_offlinereplicacount", GAUGE, (),
        "Partitions of this broker that its disk has failed."),
    Metric("kafka_log_logmanager_offlinelogdirectorycount", GAUGE, (), "Data directories that have failed."),
    Metric("kafka_controller_kafkacontroller_activecontrollercount", GAUGE, (),
        "1 if this broker is the controller, else 0."),
    Metric("kafka_server_brokertopicmetrics_bytesin_total", COUNTER, _TOPIC, "Bytes of batches from producers."),
    Metric("kafka_server_brokertopicmetrics_messagesin_total", COUNTER, _TOPIC, "Records from producers."),
    Metric("kafka_server_brokertopicmetrics_bytesout_total", COUNTER, _TOPIC, "Bytes of batches to consumers."),
    Metric("kafka_brokers", GAUGE, (), "Brokers of the cluster."),
    Metric("kafka_topic_partitions", GAUGE, _TOPIC, "Partitions of the topic."),
    Metric("kafka_log_log_size", GAUGE, _PARTITION, "Size of the log."),
    Metric("kafka_topic_partition_oldest_offset", GAUGE, _PARTITION, "First offset of the log."),
    Metric("kafka_topic_partition_current_offset", GAUGE, _PARTITION, "Offset up to which consumers read."),
    Metric("kafka_consumergroup_members", GAUGE, ("consumergroup",), "Members of the group."),
    Metric("kafka_consumergroup_lag_sum", GAUGE, ("consumergroup", "topic"),
        "Lag of the group in a topic, in records."),
    Metric("kafka_consumergroup_current_offset", GAUGE, ("consumergroup", *_PARTITION), "Committed offset."),
    Metric("kafka_consumergroup_lag", GAUGE, ("consumergroup", *_PARTITION), "Lag in records."),
    Metric("kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total", COUNTER, _GROUP,
        "Dead letters of the share group that were written."),
    Metric("kafka_server_sharegroupmetrics_deadletterqueuetotalproducerequests_total", COUNTER, _GROUP,
        "Requests that were to write them."),
    Metric("kafka_server_sharegroupmetrics_deadletterqueuefailedproducerequests_total", COUNTER, _GROUP,
        "Those that failed for good."),
)
# fmt: on
METRICS = {row.name: row for row in _ROWS}


# Samples of one piece: some 0.3 ms.
SAMPLES_PER_PIECE = 250
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Labels = tuple[str, ...]
Value = float | int


def labels_text(names: Iterable[str], values: Iterable[object]) -> str:
    """Return `{name="value",...}`, or nothing where there are no labels."""
    pairs = [f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def header(metric: Metric) -> str:
    """Return the two lines in front of a family."""
    return f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type}\n"


def family(name: str, samples: Iterable[tuple[Labels, Value]]) -> Iterator[str]:
    """Yield the family of a metric of the table, at most SAMPLES_PER_PIECE samples at a time."""
    metric = METRICS[name]
    lines = [header(metric)]
    for labels, value in samples:
        lines.append(f"{name}{labels_text(metric.labels, labels)} {'+Inf' if value == inf else value}\n")
        if len(lines) > SAMPLES_PER_PIECE:
            yield "".join(lines)
            lines.clear()
    yield "".join(lines)


def single(name: str, value: Value, *labels: str) -> Iterator[str]:
    """Yield the family of a metric that has one sample."""
    return family(name, [(labels, value)])


def histogram(name: str, rows: Iterable[tuple[Labels, list[int], float]], bounds: list[float]) -> Iterator[str]:
    """Yield the family of a histogram: each row has its labels, the counts of its buckets and the sum."""
    metric = METRICS[name]
    yield header(metric)
    names = (*metric.labels, "le")
    for labels, buckets, total in rows:
        lines: list[str] = []
        below = 0
        for bound, count in zip((*bounds, "+Inf"), buckets, strict=True):
            below += count
            lines.append(f"{name}_bucket{labels_text(names, (*labels, bound))} {below}\n")
        text = labels_text(metric.labels, labels)
        yield "".join((*lines, f"{name}_sum{text} {total}\n", f"{name}_count{text} {below}\n"))
