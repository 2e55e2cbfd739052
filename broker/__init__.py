"""The broker wing: `from odradek.broker import Broker, BrokerConfig`.

Names are loaded when they are first used: the command line imports this package for `odradek topics` as well.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .configs.broker_config import BrokerConfig
    from .log_dirs.data_dir import StartError
    from .server import Broker

__all__ = ["Broker", "BrokerConfig", "StartError"]

_HOME = {"Broker": "server", "BrokerConfig": "configs.broker_config", "StartError": "log_dirs.data_dir"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
