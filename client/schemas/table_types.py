"""The Arrow types that schemas of a registry become, and their names in Spark's DDL."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..errors import InvalidOption

# Types of a schema that lead to one another twice each double with every step.
MAX_COLUMNS = 10_000


class ColumnCount:
    """Counts the columns, at every depth, that a schema becomes."""

    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        """Count one. Raises InvalidOption if there are too many."""
        self._count += 1
        if self._count > MAX_COLUMNS:
            raise InvalidOption(f"the schema has more than {MAX_COLUMNS} columns, those inside of others counted")


def ddl(kind: Any) -> str:
    """Return an Arrow type in Spark's DDL."""
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{_quoted(each.name)}: {ddl(each.type)}' for each in kind)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{ddl(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<STRING, {ddl(kind.item_type)}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return _DDL[kind]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


_DDL = {
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.binary(): "BINARY",
    pa.string(): "STRING",
    pa.date32(): "DATE",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}
