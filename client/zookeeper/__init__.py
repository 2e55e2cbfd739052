"""The consumer of Kafka 0.8, whose groups rebalance through ZooKeeper: `ConsumerConnector`, with `odradek[cluster]`.

Names are loaded when they are first used: only the session needs kazoo.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...zookeeper.session import ZooKeeperUnreachable
    from .connector import ConsumerConnector, RebalanceFailed
    from .reading import MessageStream

__all__ = ["ConsumerConnector", "MessageStream", "RebalanceFailed", "ZooKeeperUnreachable"]

_HOMES = {
    "ConsumerConnector": ".connector",
    "MessageStream": ".reading",
    "RebalanceFailed": ".connector",
    "ZooKeeperUnreachable": "...zookeeper.session",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(home, __name__), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise
        raise ImportError(
            f"{name} needs a client of ZooKeeper: pip install 'odradek[cluster]' ('.[cluster]' in a clone)"
        ) from error


def __dir__() -> list[str]:
    return __all__
