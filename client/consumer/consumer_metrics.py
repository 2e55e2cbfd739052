"""What a consumer counts, and its metrics under Kafka's names."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.metrics import Average, Metric
from .positions import Positions

FETCH = "consumer-fetch-manager-metrics"
COORDINATOR = "consumer-coordinator-metrics"
CONSUMER = "consumer-metrics"


class ConsumerCounts:
    """Counts since the start of a consumer."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.fetch_ms = Average()
        self.commit_ms = Average()
        self.failed_commits = 0
        self.heartbeats = 0
        self.rebalances = 0
        self.rebalance_ms = Average()
        self.failed_rebalances = 0
        self.polls = 0
        self.last_poll_ms = 0.0

    def metrics(self, client_id: str, positions: Positions, now_ms: float) -> Iterator[Metric]:
        """Yield all metrics."""
        tags = {"client-id": client_id}
        lags = {state.partition: lag for state in positions if (lag := state.lag) is not None}
        for name, value in (
            ("records-consumed-total", self.records),
            ("bytes-consumed-total", self.bytes),
            ("fetch-total", self.fetch_ms.count),
            ("fetch-latency-avg", self.fetch_ms.mean),
            ("fetch-latency-max", self.fetch_ms.largest),
            ("records-lag-max", max(lags.values(), default=0)),
        ):
            yield Metric(FETCH, name, value, tags)
        for (topic, number), lag in lags.items():
            yield Metric(FETCH, "records-lag", lag, {**tags, "topic": topic, "partition": str(number)})
        for name, value in (
            ("assigned-partitions", len(positions.partitions())),
            ("commit-total", self.commit_ms.count),
            ("commit-latency-avg", self.commit_ms.mean),
            ("commit-latency-max", self.commit_ms.largest),
            ("failed-commit-total", self.failed_commits),
            ("heartbeat-total", self.heartbeats),
            ("rebalance-total", self.rebalances),
            ("rebalance-latency-avg", self.rebalance_ms.mean),
            ("rebalance-latency-max", self.rebalance_ms.largest),
            ("failed-rebalance-total", self.failed_rebalances),
        ):
            yield Metric(COORDINATOR, name, value, tags)
        if self.polls:
            yield Metric(CONSUMER, "last-poll-seconds-ago", (now_ms - self.last_poll_ms) / 1000, tags)
