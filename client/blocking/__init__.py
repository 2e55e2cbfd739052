"""The blocking client, for programs without asyncio: `from odradek.client.blocking import Producer, Consumer, Admin`.

The names, options and promises are those of `odradek.client`, without `async` and `await`. Any thread may use a client,
also in a notebook, where an event loop runs already.
"""

from __future__ import annotations

from .admin import Admin
from .callbacks import OffsetStore, RebalanceListener, ThreadedOffsetStore
from .consumer import Consumer
from .errors import ClientForked, LoopThreadCall
from .functions import read_topic, wait_for_broker
from .producer import Producer, Transaction
from .simple_consumer import SimpleConsumer
from .streams import Stream

__all__ = [
    "Admin",
    "ClientForked",
    "Consumer",
    "LoopThreadCall",
    "OffsetStore",
    "Producer",
    "RebalanceListener",
    "SimpleConsumer",
    "Stream",
    "ThreadedOffsetStore",
    "Transaction",
    "read_topic",
    "wait_for_broker",
]
