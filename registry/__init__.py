"""The schema registry, over any Kafka: `from odradek.registry import Registry, RegistryConfig`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .schemas_log import LogOptions
    from .server import Registry, RegistryConfig

__all__ = ["LogOptions", "Registry", "RegistryConfig"]

_HOMES = {"LogOptions": ".schemas_log", "Registry": ".server", "RegistryConfig": ".server"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __package__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
