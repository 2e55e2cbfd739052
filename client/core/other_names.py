"""Names of other Python clients that are others here, or are not needed: what one who tries them is told.

The page docs/from-other-clients.md has all of them; a test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

_INSTEAD = {
    "allow_auto_create_topics": "a producer always asks for it",
    "api_version": "versions are agreed on with each broker",
    "bootstrap_timeout_ms": "wait_for_broker waits",
    "client_dns_lookup": "all addresses of a host are tried",
    "connections_max_idle_ms": "a connection that the broker closes is opened again when it is needed",
    "consumer_timeout_ms": "use getmany(timeout_ms=...)",
    "default_offset_commit_callback": "commit raises its error",
    "enable_incremental_fetch_sessions": "it is always on",
    "exclude_internal_topics": "a pattern never matches internal topics",
    "loop": "a client uses the loop that runs",
    "max_batch_size": "it is batch_size here",
    "max_in_flight_requests_per_connection": "a consumer has one Fetch for each leader",
    "rebalance_timeout_ms": "it is max_poll_interval_ms here",
    "reconnect_backoff_max_ms": "it is retry_backoff_max_ms here",
    "reconnect_backoff_ms": "it is retry_backoff_ms here",
    "retries": "delivery_timeout_ms bounds the attempts",
    "ssl_ciphers": "set them in an ssl_context",
    "ssl_crlfile": "set it in an ssl_context",
}

_METHODS_INSTEAD = {
    "bootstrap_connected": "is_connected tells it",
    "close": "call stop(), or use `with` or `async with`",
    "commit_async": "call commit()",
    "highwater": "call high_watermark(partition)",
    "init_transactions": "start() does it",
    "list_topics": "call Admin.list_topics(), or partitions_for(topic)",
    "partitions_for_topic": "call partitions_for(topic)",
    "poll": "a consumer has getmany(timeout_ms=...) and getone(); a producer needs no polls",
    "produce": "call send(topic, value, key=...)",
    "seek_to_committed": "call seek(partition, offset) with the offset that committed(partition) returns",
    "topics": "call Admin.list_topics()",
    "unassign": "call unsubscribe()",
}


class KnowsOtherNames:
    """A client that says what to call where somebody calls a method of another client."""

    if not TYPE_CHECKING:  # a type checker would take every name

        def __getattr__(self, name: str) -> object:
            instead = _METHODS_INSTEAD.get(name)
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text if instead is None else f"{text}: {instead}", name=name, obj=self)


def instead_of(name: str) -> str:
    """Return what to write instead of an option that a client does not have, for the end of a message."""
    known = _INSTEAD.get(name)
    if known is None and not name.isidentifier():
        known = f"options have underscores, such as {name.replace('.', '_').replace('-', '_')}"
    return "" if known is None else f": {known}"
