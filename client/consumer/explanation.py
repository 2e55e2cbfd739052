"""Seeing inside a consumer: what `Consumer.explain` returns, and what it counts, under Kafka's names of metrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..core.clock import wall_clock_ms
from ..core.metrics import Average, Metric
from ..record import TopicPartition
from .positions import PartitionState, Positions

FETCH = "consumer-fetch-manager-metrics"
COORDINATOR = "consumer-coordinator-metrics"
CONSUMER = "consumer-metrics"


@dataclass(frozen=True, slots=True)
class PartitionExplanation:
    """One assigned partition. `waits_for` says why no records come, "" if they do or there are none."""

    partition: TopicPartition
    position: int | None
    committed: int | None
    high_watermark: int | None
    # Records behind the high watermark of the last fetch; None before it.
    lag: int | None
    # The age of the last returned record while there are more, 0 at the end; None if no record was returned.
    lag_seconds: float | None
    waits_for: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A consumer at one moment. Its text is for people."""

    group_id: str | None
    member_id: str
    generation: int
    # UNJOINED, JOINING, STABLE or ENDED; "" without a group.
    state: str
    # Who or what the group's rebalance waits for, "" if there is none.
    rebalance: str
    partitions: tuple[PartitionExplanation, ...]

    def __str__(self) -> str:
        lines: list[str] = []
        if self.group_id is not None:
            member = f"member {self.member_id or '(none yet)'}, generation {self.generation}"
            lines.append(f"group {self.group_id}: {self.state.lower()}, {member}")
        if self.rebalance:
            lines.append(f"rebalance: {self.rebalance}")
        for each in self.partitions:
            name = str(each.partition)
            behind = "" if each.lag_seconds is None else f" ({each.lag_seconds:.1f} s)"
            lag = "lag unknown" if each.lag is None else f"lag {each.lag}{behind}"
            waits = f", waits for {each.waits_for}" if each.waits_for else ""
            lines.append(f"{name}: position {each.position}, committed {each.committed}, {lag}{waits}")
        return "\n".join(lines) or "no partitions are assigned"


def explained(state: PartitionState) -> PartitionExplanation:
    """Return what to say of a partition."""
    behind_s = None
    if state.last_timestamp_ms >= 0:
        behind_s = max(wall_clock_ms() - state.last_timestamp_ms, 0) / 1000 if state.lag else 0.0
    watermark = None if state.high_watermark < 0 else state.high_watermark
    return PartitionExplanation(
        state.partition, state.position, state.committed, watermark, state.lag, behind_s, _waits_for(state)
    )


def _waits_for(state: PartitionState) -> str:
    if state.paused:
        return "resume()"
    if state.held:
        return "the rebalance that takes it away"
    if state.error is not None:
        return f"the next poll, which raises: {state.error}"
    if state.position is None:
        return "its position"
    if state.failures:
        return f"its leader, after {state.failures} failed requests"
    return "the next poll" if state.fetched else ""


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
