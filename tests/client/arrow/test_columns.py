"""Memory for Arrow's columns: of the pool or in large pages, and columns that hold the same in each row."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="pip install 'odradek[tables]'")

import numpy as np
from odradek.client.arrow.columns import Memory, filled, large_pages, pool, repeated

ROWS = [0, 1, 2, 1023, 1024, 1025, 2048, 5000]


@pytest.mark.parametrize("size", [1, 4096, (2 << 20) - 1, 2 << 20, (2 << 20) + 1])
@pytest.mark.parametrize("memory", [pool, large_pages])
def test_memory_is_as_large_as_asked_and_can_be_written_to(memory: Memory, size: int) -> None:
    made = memory(size)
    assert made.size >= size
    np.frombuffer(made, np.uint8)[[0, size - 1]] = 7
    assert made.slice(size - 1, 1).to_pybytes() == b"\7"


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("content", ["t", "t\u00f6pic", -5, 2**31 - 1])
def test_a_column_holds_the_same_in_each_row(content: int | str, rows: int) -> None:
    for memory in (pool, large_pages):
        column = repeated(content, rows, memory)
        column.validate(full=True)
        assert column.to_pylist() == [content] * rows


def test_memory_is_filled_with_a_number() -> None:
    assert filled(3, np.int32, -2).to_pybytes() == np.full(3, -2, np.int32).tobytes()
