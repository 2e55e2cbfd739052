"""The compiled kernel, where it is installed (`pip install ./kernel`): the loops over records, in C.

A kernel does what the Python functions beside it do, for the bytes and objects that are usual. For anything else it
returns None, and Python decides. So what is broken, and how the error reads, stands in Python alone.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Goes up when a function of the kernel changes. A kernel with another number is not called.
INTERFACE = 3

Lists = tuple["list[int]", "list[int]", "list[bytes | None]", "list[bytes | None]", "list[Any]"]


P = TypeVar("P", bound=tuple[Any, ...])


class Kernel(Protocol):
    """The functions of `kernel/odradek_kernel.pyx`."""

    def decode_columns(
        self, data: bytes, position: int, count: int, base_offset: int, base_timestamp: int, /
    ) -> tuple[Lists, int] | None:
        """Do as `columns.decode_columns` from `position` on. Return the columns and the position behind them."""
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
        """Do as `columns.decode_rows` from `position` on. Return the rows and the position behind them."""
        ...

    def decode_values(self, data: bytes, count: int, /) -> list[bytes | None] | None:
        """Do as `values.decode_values`."""
        ...

    def encode_records(
        self, records: Sequence[tuple[Any, ...]], base_offset: int, base_timestamp: int, /
    ) -> tuple[bytes, int, int, int] | None:
        """Do as `record.encode_records`."""
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
        """Do as the loop of `spreading.py`. Return whether the pairs have ended, and the pair that it leaves."""
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


_MODULE = "odradek_kernel"


def find() -> tuple[Kernel | None, str]:
    """Return the installed kernel, or None and why there is none."""
    try:
        module: Any = import_module(_MODULE)
    except ModuleNotFoundError:
        return None, "the compiled kernel is not installed"
    except ImportError as error:
        return None, f"the compiled kernel cannot be loaded: {error}"
    if module.INTERFACE != INTERFACE:
        return None, f"the compiled kernel has interface {module.INTERFACE}, not {INTERFACE}"
    return module, ""


compiled, _why_not = find()


def is_installed() -> bool:
    """Whether there is a kernel, also one that cannot be used."""
    return find_spec(_MODULE) is not None


def record_code() -> str:
    """Return which code decodes and encodes records: "the compiled kernel", or "Python" and why."""
    return "the compiled kernel" if compiled is not None else f"Python ({_why_not})"
