"""The blocking client, for programs without asyncio: `from odradek.client.blocking import Producer, Consumer, Admin`.

The names, options and promises are those of `odradek.client`, without `async` and `await`. Any thread may use a client,
also in a notebook, where an event loop runs already. Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import lazily

if TYPE_CHECKING:
    from .admin import Admin, wait_for_broker
    from .consumer import (
        Consumer,
        OffsetStore,
        RebalanceListener,
        ShareConsumer,
        SimpleConsumer,
        Stream,
        ThreadedOffsetStore,
        read_topic,
    )
    from .loop_thread import ClientForked, LoopThreadCall
    from .producer import Producer, Transaction

__all__ = [
    "Admin",
    "ClientForked",
    "Consumer",
    "LoopThreadCall",
    "OffsetStore",
    "Producer",
    "RebalanceListener",
    "ShareConsumer",
    "SimpleConsumer",
    "Stream",
    "ThreadedOffsetStore",
    "Transaction",
    "read_topic",
    "wait_for_broker",
]

# Module -> the names that it has.
_MODULES = {
    "admin": "Admin wait_for_broker",
    "consumer": "Consumer OffsetStore RebalanceListener ShareConsumer SimpleConsumer Stream ThreadedOffsetStore "
    "read_topic",
    "loop_thread": "ClientForked LoopThreadCall",
    "producer": "Producer Transaction",
}
__getattr__, __dir__ = lazily(__name__, _MODULES)
