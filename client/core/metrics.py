"""Metrics of a client under Kafka's names, and their bridge to Prometheus (`pip install odradek[metrics]`).

    bridge = PrometheusBridge()
    bridge.add(consumer)
    prometheus_client.REGISTRY.register(bridge)

A name that Kafka gives in `consumer-fetch-manager-metrics` as `records-consumed-total` is
`kafka_consumer_fetch_manager_records_consumed_total` there. Times are in milliseconds, as Kafka's are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ... import how_to_install
from ..errors import InvalidOption


@dataclass(frozen=True, slots=True)
class Metric:
    """One value: its group, its name, and tags such as client-id, topic and partition."""

    group: str
    name: str
    value: float
    tags: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def is_counter(self) -> bool:
        """Whether the value only grows."""
        return self.name.endswith("-total")


class Average:
    """A count, its mean and its maximum since the start."""

    __slots__ = ("count", "largest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.largest = 0.0

    def add(self, value: float) -> None:
        """Take in one value."""
        self.count += 1
        self.total += value
        self.largest = max(self.largest, value)

    @property
    def mean(self) -> float:
        """The mean, 0 without a value."""
        return self.total / self.count if self.count else 0.0


class Measured(Protocol):
    """A client that has metrics."""

    def metrics(self) -> Iterable[Metric]:
        """Return the metrics as they are now."""
        ...


class PrometheusBridge:
    """A collector for a registry of prometheus_client. It reads the clients' metrics when Prometheus asks."""

    def __init__(self) -> None:
        try:
            import prometheus_client.core as core
        except ImportError as error:
            raise InvalidOption(f"the bridge needs prometheus_client: {how_to_install('metrics')}") from error
        self._core: Any = core
        self._clients: list[Measured] = []

    def add(self, client: Measured) -> None:
        """Show the metrics of a client. Clients are told apart by their client id."""
        self._clients.append(client)

    def remove(self, client: Measured) -> None:
        """Show the metrics of a client no longer."""
        self._clients.remove(client)

    def collect(self) -> Iterator[Any]:
        """Yield a family for each name, as prometheus_client asks."""
        families: dict[tuple[str, tuple[str, ...]], Any] = {}
        for client in self._clients:
            for metric in client.metrics():
                labels = tuple(sorted(metric.tags))
                name = prometheus_name(metric)
                family = families.get((name, labels))
                if family is None:
                    kind = self._core.CounterMetricFamily if metric.is_counter else self._core.GaugeMetricFamily
                    text = f"{metric.name} of {metric.group}"
                    label_names = [label.replace("-", "_") for label in labels]
                    family = families[name, labels] = kind(name, text, labels=label_names)
                family.add_metric([metric.tags[label] for label in labels], metric.value)
        yield from families.values()


def prometheus_name(metric: Metric) -> str:
    """Return the name under which Prometheus knows a metric."""
    return f"kafka_{metric.group.removesuffix('-metrics')}_{metric.name}".replace("-", "_")
