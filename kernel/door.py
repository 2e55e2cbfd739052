"""The door to the compiled kernel (loops.pyx), which says whether it runs, or Python.

The build of Odradek compiles it where there is a C compiler. Its functions do what Python functions do (below), for
the bytes and objects that are usual. For anything else they say so, and Python decides. So what is broken, and how the
error reads, stands in Python alone. A caller looks at `compiled` at each call.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Goes up when a function of the kernel changes. A kernel with another number is not called.
INTERFACE = 4

Lists = tuple["list[int]", "list[int]", "list[bytes | None]", "list[bytes | None]", "list[Any]"]


P = TypeVar("P", bound=tuple[Any, ...])


class Kernel(Protocol):
    """What is in loops.pyx."""

    def decode_columns(
        self, data: bytes, position: int, count: int, base_offset: int, base_timestamp: int, /
    ) -> tuple[Lists, int] | None:
        """Do as `protocol.records.columns.decode_columns` from `position` on. Return also the position behind them."""
        ...

    def decode_rows(
        self,
        data: bytes,
        position: int,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time_ms: int | None,
        kind: type[tuple[Any, ...]],
        before: tuple[str | int, ...],
        between: tuple[str | int, ...],
        /,
    ) -> tuple[list[Any], int] | None:
        """Do as `columns.RowReader.read` from `position` on. Return the rows and the position behind them."""
        ...

    def decode_values(self, data: bytes, count: int, /) -> list[bytes | None] | None:
        """Do as `protocol.records.values.decode_values`."""
        ...

    def encode_records(
        self, records: Sequence[tuple[Any, ...]], base_offset: int, base_timestamp: int, /
    ) -> tuple[bytes, int, int, int] | None:
        """Do as `protocol.records.record.encode_records`."""
        ...

    def murmur2(self, data: bytes, /) -> int:
        """Return Kafka's hash of a key, as an unsigned 32-bit number."""
        ...

    def spread(
        self,
        pairs: Iterator[Any],
        records: list[list[Any]],
        sizes: list[list[int]],
        kind: type[tuple[Any, ...]],
        timestamp_ms: int,
        keyless: int,
        max_records: int,
        max_bytes: int,
        max_size: int,
        /,
    ) -> tuple[bool, tuple[Any, ...]]:
        """Do as `client.producer.spreading`. Return whether the pairs have ended, and the pair that it leaves."""
        ...

    def prepare(
        self,
        kind: type[P],
        record_kind: type[tuple[Any, ...]],
        topic: str,
        partition: int | None,
        key: Any,
        value: bytes | None,
        timestamp_ms: int,
        max_size: int,
        /,
    ) -> P | None:
        """Do as the end of `Preparation.prepare`, for a record without headers."""
        ...

    def places(
        self,
        kind: type[P],
        topic: str,
        partition: int,
        base_offset: int,
        append_time_ms: int,
        indexes: list[int],
        timestamps_ms: list[int],
        /,
    ) -> list[P] | None:
        """Do as `AwaitedRecords.places`."""
        ...

    # -- Arrow: memory and bytes go in as anything with a buffer

    def scan_batches(self, records: Any, table: Any, /) -> tuple[int, int] | None:
        """Do as `client.arrow.batches.scan`: fill a table. Return its rows, and the position behind them."""
        ...

    # (most rows, key, value, offsets, timestamps, their types, places of headers): do as `client.arrow.python_columns`.
    OpenColumns: Callable[..., Any]
    # (records, places of headers, first row, rows, ends and bits of lists, keys, values) -> nulls among the values.
    copy_headers: Callable[..., int]
    # (first row, length, bits, ends, bytes), and (first row, length, bits, numbers, bytes of one).
    BytesColumn: Callable[..., Any]
    NumbersColumn: Callable[..., Any]
    # (time now, value, key, partition, times, ends of headers, their keys, their values).
    ArrowRows: Callable[..., Any]
    # (partitions, limit in bytes, memory): do as `client.arrow.python_batches`.
    OpenBatches: Callable[..., Any]
    # (column, lines, ends of lines, marks) -> bytes written: do as `client.arrow.json_lines`.
    join_objects: Callable[..., int]


_MODULE = f"{__package__}.loops"


def find() -> tuple[Kernel | None, str]:
    """Return the kernel, or None and why there is none."""
    try:
        module: Any = import_module(_MODULE)
    except ModuleNotFoundError:
        return None, "the compiled kernel was not built"
    except ImportError as error:
        return None, f"the compiled kernel cannot be loaded: {error}"
    if module.INTERFACE != INTERFACE:
        return None, f"the compiled kernel was built from other sources: interface {module.INTERFACE}, not {INTERFACE}"
    return module, ""


compiled, _why_not = find()


def is_built() -> bool:
    """Whether there is a kernel, also one that cannot be used."""
    return find_spec(_MODULE) is not None


def record_code() -> str:
    """Return which code decodes and encodes records: "the compiled kernel", or "Python" and why."""
    return "the compiled kernel" if compiled is not None else f"Python ({_why_not})"
