"""The console: a web page over any Kafka, `from odradek.console import Console, ConsoleConfig`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .server import Console, ConsoleConfig

__all__ = ["Console", "ConsoleConfig"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(".server", __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
