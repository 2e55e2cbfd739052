"""SQL over topics: each topic is a table of DuckDB, of which only the wanted offsets and columns are read."""

from __future__ import annotations

from importlib.util import find_spec

from ... import how_to_install
from ..errors import InvalidOption


def check_packages() -> None:
    """Raise InvalidOption where a package is missing that SQL needs. Call it before `topic_tables` is imported."""
    missing = [name for name in ("duckdb", "pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        raise InvalidOption(f"SQL needs {' and '.join(missing)}: {how_to_install('sql')}")
