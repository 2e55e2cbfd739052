"""The compiled kernel writes only to the memory that it is lent, and reads only what it is given."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="pip install 'odradek[tables]'")

from odradek.protocol.records.batch import encode_batch
from odradek.protocol.records.record import Record
from odradek.tests.support.brokers.compiled_kernel import needed_kernel

pytestmark = pytest.mark.usefixtures("arrow_way")

LEAST = np.iinfo(np.int64).min


@pytest.fixture(scope="module", autouse=True)
def arrow_way() -> ModuleType:
    """The kernel alone."""
    return needed_kernel()


def column(*ends: int, data: bytes = b"abc", first: int = 0) -> Any:
    return needed_kernel().BytesColumn(first, len(ends) - 1 - first, None, np.array(ends, np.int32), data)


def numbers(size: int) -> Any:
    return needed_kernel().NumbersColumn(0, 1, None, bytes(size), size)


def opened(rows: int, **smaller: int) -> Any:
    """Open columns for so many rows, one of whose memories is smaller."""

    def memory(name: str, size: int) -> bytearray:
        return bytearray(size - smaller.get(name, 0))

    key = memory("ends", 4 * (rows + 1)), memory("data", 100), memory("bits", (rows + 7) // 8)
    numbers = memory("offsets", 8 * rows), memory("times", 8 * rows), memory("types", 4 * rows)
    return needed_kernel().OpenColumns(rows, key, None, *numbers, True)


@pytest.mark.parametrize("name", ["ends", "bits", "offsets", "times", "types"])
def test_columns_need_memory_for_all_rows(name: str) -> None:
    opened(9)
    with pytest.raises(ValueError, match="are needed"):
        opened(9, **{name: 1})


def test_memory_that_cannot_be_written_is_not_lent() -> None:
    with pytest.raises(BufferError):
        needed_kernel().OpenColumns(1, None, None, bytes(8), None, None, False)


@pytest.mark.parametrize(
    "made",
    [
        lambda: column(0, 2, 1),
        lambda: column(0, 4),
        lambda: column(-1, 2),
        lambda: needed_kernel().BytesColumn(0, 3, None, np.zeros(3, np.int32), b""),
        lambda: needed_kernel().BytesColumn(-1, 1, None, np.zeros(3, np.int32), b""),
        lambda: needed_kernel().BytesColumn(0, 9, b"\0", np.zeros(10, np.int32), b""),
        lambda: needed_kernel().NumbersColumn(1, 2, None, bytes(8), 4),
        lambda: needed_kernel().NumbersColumn(0, 9, b"\0", bytes(72), 8),
        lambda: needed_kernel().OpenBatches(2, 100, bytearray(199)),
        lambda: needed_kernel().OpenBatches(0, 100, bytearray(199)),
        lambda: needed_kernel().ArrowRows(0, column(0, 1), column(0, 1, 2), None, None, None, None, None),
        lambda: needed_kernel().ArrowRows(0, column(0, 1), None, numbers(2), None, None, None, None),
        lambda: needed_kernel().ArrowRows(0, column(0, 1), None, None, numbers(4), None, None, None),
        lambda: needed_kernel().join_objects(column(0, 3), bytearray(5), bytearray(16), bytearray(1)),
        lambda: needed_kernel().join_objects(column(0, 3), bytearray(6), bytearray(15), bytearray(1)),
        lambda: needed_kernel().join_objects(column(0, 3), bytearray(6), bytearray(16), bytearray(0)),
    ],
)
def test_sizes_that_do_not_fit_are_errors(made: Callable[[], object]) -> None:
    with pytest.raises(ValueError):
        made()


@pytest.mark.parametrize(
    ("ends", "keys"),
    [((0, 2, 1), 9), ((1, 1, 1), 9), ((0, 1, 3), 2), ((0, 1), 9)],
    ids=["fall", "begin", "few", "rows"],
)
def test_headers_that_rows_do_not_have_are_errors(ends: tuple[int, ...], keys: int) -> None:
    kernel = needed_kernel()
    names = column(*[0] * (keys + 1))
    counted = kernel.NumbersColumn(0, len(ends), None, np.array(ends, np.int32), 4)
    with pytest.raises(ValueError, match="headers"):
        kernel.ArrowRows(0, column(0, 1, 2), None, None, None, counted, names, names)


@pytest.mark.parametrize("at", range(12))
@pytest.mark.parametrize("number", [-1, 2**40, LEAST])
def test_a_table_of_other_bytes_is_unusual_or_read_within_them(at: int, number: int) -> None:
    data = encode_batch([Record(key=b"k", value=b"v", headers=(("h", b"x"),))])
    table = np.zeros((1, 12), np.int64)
    assert needed_kernel().scan_batches(data, table) == (1, len(data))
    table[0, at] = number
    columns = opened(4)
    status, place = columns.append(data, table, (0, 0, 0), LEAST, 2**62, 100)
    assert status in (0, 3) and columns.rows <= 1
    assert columns.append(data, table, (0, 1, 2**40), LEAST, 2**62, 100)[0] in (0, 3)
    assert place[0] in (0, 1)
