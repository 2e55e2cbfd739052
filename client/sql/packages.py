"""The packages that SQL needs: an installation without the extra `sql` has none of them."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import InvalidOption


def check_packages() -> None:
    """Raise InvalidOption where a package is missing that SQL needs. Call it before `topic_tables` is imported."""
    missing = [name for name in ("duckdb", "pyarrow", "numpy") if find_spec(name) is None]
    if missing:
        raise InvalidOption(f"SQL needs {' and '.join(missing)}: pip install 'odradek[sql]' ('.[sql]' in a clone)")
