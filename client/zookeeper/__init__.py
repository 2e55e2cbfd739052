"""The consumer of Kafka 0.8, whose groups rebalance through ZooKeeper: `ConsumerConnector`, with `odradek[cluster]`.

Names are loaded when they are first used: only the session needs kazoo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import how_to_install, lazily

if TYPE_CHECKING:
    from ...zookeeper.session import ZooKeeperUnreachable
    from .connector import ConsumerConnector, RebalanceFailed
    from .reading import MessageStream

__all__ = ["ConsumerConnector", "MessageStream", "RebalanceFailed", "ZooKeeperUnreachable"]

_MODULES = {
    "connector": "ConsumerConnector RebalanceFailed",
    "reading": "MessageStream",
    "..zookeeper.session": "ZooKeeperUnreachable",
}
_load, __dir__ = lazily(__name__, _MODULES)


def __getattr__(name: str) -> object:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "kazoo":
            raise
        raise ImportError(f"{name} needs a client of ZooKeeper: {how_to_install('cluster')}") from error
