"""Prometheus' text format, version 0.0.4: families of samples, in pieces.

A family is one metric with all its samples. Labels are escaped, because names of topics and groups come from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from .table import METRICS, Metric

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
