"""The schema registry, over any Kafka: `from odradek.registry import Registry, RegistryConfig`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .schemas_log import LogOptions
    from .server import Registry, RegistryConfig

__all__ = ["LogOptions", "Registry", "RegistryConfig"]

__getattr__, __dir__ = lazily(__name__, {"schemas_log": "LogOptions", "server": "Registry RegistryConfig"})
