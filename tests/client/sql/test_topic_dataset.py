"""Pruning: nothing that a filter matches is left out, and what a filter rules out is not read."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pip install 'odradek[sql]'")

import pyarrow as pa
import pyarrow.dataset as ds
from odradek.client.sql.topic_dataset import Span, prune

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.string()),
    ]
)
SPANS = [Span(0, 0, 100), Span(1, 50, 60), Span(2, 7, 8)]
OFFSET, PARTITION, TIME, KEY = (ds.field(name) for name in ("offset", "partition", "timestamp", "key"))


@pytest.mark.parametrize(
    ("expression", "left"),
    [
        (PARTITION == 1, [Span(1, 50, 60)]),
        (PARTITION.isin(pa.array([0, 2], pa.int32())), [Span(0, 0, 100), Span(2, 7, 8)]),
        ((OFFSET >= 55) & (OFFSET < 58), [Span(0, 55, 58), Span(1, 55, 58)]),
        (OFFSET == 7, [Span(0, 7, 8), Span(2, 7, 8)]),
        ((PARTITION == 0) | (OFFSET >= 57), [Span(0, 0, 100), Span(1, 57, 60)]),
        (OFFSET > 1000, []),
        (KEY == "offset", SPANS),
        ((OFFSET > 90) & (KEY == "a"), [Span(0, 91, 100)]),
    ],
    ids=str,
)
def test_what_a_filter_rules_out_is_left_out(expression: Any, left: list[Span]) -> None:
    assert prune(expression, SCHEMA, SPANS) == left


def test_a_lower_bound_of_time_is_found_to_the_millisecond() -> None:
    moment = datetime(2026, 11, 22, 10, 0, 0, 250_000, UTC)
    found = prune(pa.scalar(moment, pa.timestamp("us", tz="UTC")) <= TIME, SCHEMA, SPANS)
    assert [each.from_ms for each in found] == [round(moment.timestamp() * 1000)] * 3


@pytest.mark.parametrize("seed", range(10))
def test_no_row_that_matches_is_left_out(seed: int) -> None:
    chance = random.Random(seed)

    def condition(depth: int) -> Any:
        if depth and chance.random() < 0.7:
            one, other = condition(depth - 1), condition(depth - 1)
            return ~one if chance.random() < 0.2 else one & other if chance.random() < 0.5 else one | other
        number = chance.randrange(100)
        return chance.choice(
            [number <= OFFSET, number > OFFSET, number == OFFSET, number != OFFSET, number % 3 == PARTITION, KEY == "a"]
        )

    expression = condition(3)
    rows = [(span.partition, at) for span in SPANS for at in range(span.start, span.end)]
    table = pa.table(
        {
            "partition": pa.array([partition for partition, _ in rows], pa.int32()),
            "offset": pa.array([at for _, at in rows], pa.int64()),
            "timestamp": pa.array([0] * len(rows), pa.timestamp("us", tz="UTC")),
            "key": [chance.choice("ab") for _ in rows],
        },
        schema=SCHEMA,
    )
    found = table.filter(expression)
    matching = set(zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True))
    left = {(span.partition, at) for span in prune(expression, SCHEMA, SPANS) for at in range(span.start, span.end)}
    assert matching <= left
