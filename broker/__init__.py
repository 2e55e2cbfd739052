"""The broker wing: `from odradek.broker import Broker, BrokerConfig`.

Python loads these names at their first use, because `odradek topics` imports this package too and needs none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import lazily

if TYPE_CHECKING:
    from .configs.broker_config import BrokerConfig
    from .log_dirs.data_dir import StartError
    from .server import Broker

__all__ = ["Broker", "BrokerConfig", "StartError"]

_MODULES = {"configs.broker_config": "BrokerConfig", "log_dirs.data_dir": "StartError", "server": "Broker"}
__getattr__, __dir__ = lazily(__name__, _MODULES)
