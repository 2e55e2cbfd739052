"""A schema registry of this process, over a Kafka of the test, in a thread: blocking clients reach it.

with kafka() as k, LocalSchemaRegistry(k) as registry:
    run_my_service(k.address, registry.url)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from ..broker.broker_thread import BrokerThread
from ..client.schemas import Schema, SchemaRegistry
from ..registry import LogOptions, Registry, RegistryConfig
from .remote import Kafka


class LocalSchemaRegistry:
    """A schema registry. `close` it at the end, or use it with `with`. Its topic is its own, and has a new name."""

    def __init__(self, kafka: Kafka, *, port: int = 0) -> None:
        """Start it over a Kafka, on a free port if none is given. KafkaError where the Kafka does not answer."""
        self.topic = kafka.create_topic(f"_schemas-{uuid4().hex[:12]}", config={"cleanup.policy": "compact"})
        # Where the kit itself connects: the users of a test may see nothing of the topic.
        address = kafka._kit_address  # pyright: ignore[reportPrivateUsage]
        self._registry = Registry(RegistryConfig(LogOptions(address, self.topic), port=port))
        self._thread = BrokerThread(self._registry.start, self._registry.stop)
        self._thread.start()
        self.url = self._registry.url
        # A client, which keeps nothing that could change.
        self.client = SchemaRegistry(self.url, latest_ttl_ms=0)

    def __enter__(self) -> LocalSchemaRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop it. Idempotent."""
        self._thread.stop()

    def register(self, subject: str, schema: str | Mapping[str, Any] | list[Any], type: str = "AVRO") -> int:
        """Register a schema as the next version of a subject; return its id. SchemaRegistryRefused if it may not."""
        return self.client.register(subject, Schema(_text(schema), type))

    def why_incompatible(
        self, subject: str, schema: str | Mapping[str, Any] | list[Any], type: str = "AVRO"
    ) -> list[str]:
        """Return why a schema may not become the next version of a subject; nothing if it may."""
        return self.client.why_incompatible(subject, Schema(_text(schema), type))

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Set the level of a subject, or of all that have none of their own."""
        self.client.set_compatibility(level, subject)

    def subjects(self) -> list[str]:
        """Return all subjects."""
        return self.client.subjects()


def _text(schema: str | Mapping[str, Any] | list[Any]) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)
