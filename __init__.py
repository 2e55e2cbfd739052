"""Odradek: a Kafka broker, client and PySpark source in Python. Kept light: Spark executors import it.

As a plugin of pytest it brings the fixtures of the test kit: `pytest_plugins = ["odradek"]`, or `pytest -p odradek`.
PYTEST_DONT_REWRITE: it has no assertions of a test, and is imported as it is.
"""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["__version__"]
pytest_plugins = ("odradek.testing.plugin",)

# Not that of `typing`: its import takes longer than a health check does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def how_to_install(extras: str) -> str:
    """Return what brings an extra of Odradek, or several with commas."""
    return f"pip install 'odradek[{extras}]' ('.[{extras}]' in a clone)"


def lazily(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` of a package that loads names at their first use, and its `__dir__`, which names them.

    `modules`: module -> its names.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f".{homes[name]}", package), name)

    return load, lambda: sorted(homes)
