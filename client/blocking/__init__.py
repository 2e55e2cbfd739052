"""The blocking client, for programs without asyncio: `from odradek.client.blocking import Producer, Consumer, Admin`.

The names, options and promises are those of `odradek.client`, without `async` and `await`. Any thread may use a client,
also in a notebook, where an event loop runs already. Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import lazily

if TYPE_CHECKING:
    from .admin import Admin as Admin
    from .admin import wait_for_broker as wait_for_broker
    from .consumer import Consumer as Consumer
    from .consumer import OffsetStore as OffsetStore
    from .consumer import RebalanceListener as RebalanceListener
    from .consumer import ShareConsumer as ShareConsumer
    from .consumer import SimpleConsumer as SimpleConsumer
    from .consumer import Stream as Stream
    from .consumer import ThreadedOffsetStore as ThreadedOffsetStore
    from .consumer import read_topic as read_topic
    from .loop_thread import ClientForked as ClientForked
    from .loop_thread import LoopThreadCall as LoopThreadCall
    from .producer import Producer as Producer
    from .producer import Transaction as Transaction

# Module -> the names that it has.
_MODULES = {
    "admin": "Admin wait_for_broker",
    "consumer": "Consumer OffsetStore RebalanceListener ShareConsumer SimpleConsumer Stream ThreadedOffsetStore "
    "read_topic",
    "loop_thread": "ClientForked LoopThreadCall",
    "producer": "Producer Transaction",
}
__getattr__, __dir__ = lazily(__name__, _MODULES)
if not TYPE_CHECKING:
    __all__ = __dir__()
