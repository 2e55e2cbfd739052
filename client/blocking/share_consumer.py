"""The blocking share consumer: `ShareConsumer`.

    with ShareConsumer("jobs", bootstrap_servers="127.0.0.1:9092", group_id="workers") as consumer:
        for record in consumer: ...

Options, defaults and promises are those of `odradek.client.ShareConsumer`. One thread at a time polls; any thread may
acknowledge. `acknowledgement_listener` is called on the clients' thread, so it must return at once.
"""

from __future__ import annotations

# Derived methods are functions outside of the class whose protected members they use.
# pyright: reportPrivateUsage=false
from collections.abc import Callable, Coroutine
from typing import Any, Generic

from .. import share as asyncio_client
from ..record import K, ShareRecord, TopicPartition, V
from .derivation import PollingClient, at_once, documented_by, options_of, waiting

Found = dict[TopicPartition, list[ShareRecord[K, V]]]


class ShareConsumer(PollingClient[ShareRecord[K, V]], Generic[K, V]):
    """Takes records of topics as a member of a share group. Use `with`, or `start()` and `stop()`.

    Deserializers run on the clients' thread, so they must return at once.
    """

    _inner: asyncio_client.ShareConsumer[Any, Any]

    @options_of(asyncio_client.ShareConsumer)
    def __init__(self, inner: asyncio_client.ShareConsumer[Any, Any]) -> None:
        super().__init__(inner)

    # -- Stop

    @documented_by(asyncio_client.ShareConsumer.stop)
    def stop(self, timeout_ms: float | None = None) -> None:
        self._stop_by(lambda: self._inner.stop(timeout_ms))

    # -- Poll

    @documented_by(asyncio_client.ShareConsumer.getmany)
    def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ShareRecord[K, V]]]:
        return self._poll_records(lambda: self._inner.getmany(timeout_ms=timeout_ms, max_records=max_records))

    def _poll_records(self, work: Callable[[], Coroutine[Any, Any, Found[K, V]]]) -> Found[K, V]:
        return self._call(work, self._inner.give_back)

    # -- What became of records

    accept = at_once(asyncio_client.ShareConsumer.accept)
    release = at_once(asyncio_client.ShareConsumer.release)
    reject = at_once(asyncio_client.ShareConsumer.reject)
    renew = waiting(asyncio_client.ShareConsumer.renew)
    commit = waiting(asyncio_client.ShareConsumer.commit)
    commit_soon = at_once(asyncio_client.ShareConsumer.commit_soon)
    acquisition_lock_timeout_ms = at_once(asyncio_client.ShareConsumer.acquisition_lock_timeout_ms)
    lock_left_ms = at_once(asyncio_client.ShareConsumer.lock_left_ms)

    # -- Subscription

    subscribe = at_once(asyncio_client.ShareConsumer.subscribe)
    subscription = at_once(asyncio_client.ShareConsumer.subscription)
