"""The broker wing: `from odradek.broker import Broker, BrokerConfig`.

Python loads these names at their first use, because `odradek topics` imports this package too and needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .configs.broker_config import BrokerConfig
    from .log_dirs.data_dir import StartError
    from .server import Broker

__all__ = ["Broker", "BrokerConfig", "StartError"]

_MODULES = {"Broker": "server", "BrokerConfig": "configs.broker_config", "StartError": "log_dirs.data_dir"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
