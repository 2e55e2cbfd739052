"""The blocking client, for programs without asyncio: `from odradek.client.blocking import Producer, Consumer, Admin`.

The names, options and promises are those of `odradek.client`, without `async` and `await`. Any thread may use a client,
also in a notebook, where an event loop runs already.
"""

from __future__ import annotations

from .. import topic_table
from ..core import cluster
from .admin import Admin
from .callbacks import OffsetStore, RebalanceListener, ThreadedOffsetStore
from .consumer import Consumer, SimpleConsumer, Stream
from .derivation import waiting_function
from .loop_thread import ClientForked, LoopThreadCall
from .producer import Producer, Transaction
from .share_consumer import ShareConsumer

wait_for_broker = waiting_function(cluster.wait_for_broker)
read_topic = waiting_function(topic_table.read_topic)

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
