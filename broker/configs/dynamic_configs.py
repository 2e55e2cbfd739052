"""Dynamic configs: values that were changed while the broker runs, in Kafka's two layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .definition import Value


@dataclass(slots=True)
class DynamicConfigs:
    """The layers of dynamic configs, by config name. They take precedence over the configs of the start."""

    # For this broker alone: the strongest layer.
    broker: Mapping[str, str] = field(default_factory=dict[str, str])
    # For every broker of the cluster.
    cluster: Mapping[str, str] = field(default_factory=dict[str, str])
    # The values of the start that the layers replaced.
    # Invariant: its names are those of both layers.
    replaced: dict[str, Value] = field(default_factory=dict[str, Value])
