"""Records of a schema registry, in Avro and by JSON Schema. Schemas are asked for before their records are looked at,
so decoding never waits. Pages about the registry itself ask it in threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any, TypeVar

from ...client import ConsumerRecord, KafkaError
from ...client.core.serialization import SchemaMissing
from ...client.schemas import SchemaRegistry
from ...client.schemas.plain_json import PlainReader
from .decoding import UndecodableValue

_log = logging.getLogger(__name__)

# Ids that were asked for, also in vain. Bytes that only look like the registry's frame name any number.
MAX_IDS = 1_000
# How long a registry that did not answer is not asked again.
_PAUSE_S = 15.0
_MAGIC, _FRAME_BYTES = 0, 5
# Of pages about the registry, at once: the others wait, as long as one that does not answer lets them.
_THREADS = 2
T = TypeVar("T")
_FORMS = {"AVRO": "avro", "JSON": "json-schema"}


class Schemas:
    """Decodes keys and values by the schemas of one registry."""

    def __init__(self, registry: SchemaRegistry | str) -> None:
        # JSON is shown without a check by its schema, which can take any time: all pages wait meanwhile.
        self._reader = PlainReader(registry, validate=False)
        # Pages show what is there now, while records are decoded by what was learnt before.
        self._fresh = SchemaRegistry(registry) if isinstance(registry, str) else copy(registry)
        self._threads = ThreadPoolExecutor(_THREADS, "registry")
        self._asked: dict[bytes, None] = {}
        self._paused_until_s = 0.0

    def decode(self, data: bytes) -> tuple[str, Any]:
        """Return the form of bytes, avro or json-schema, and what they mean as plain JSON.

        Raises UndecodableValue, also for a schema that is not there.
        """
        try:
            kind, value = self._reader.read(data)
            return _FORMS[kind], value
        except SchemaMissing:
            raise UndecodableValue("the registry has not said what the schema is") from None
        except Exception as error:
            raise UndecodableValue(str(error)[:200]) from error

    async def look(self, work: Callable[[SchemaRegistry], T]) -> T:
        """Return what `work` finds in the registry as it is now. Raises SchemaRegistryRefused and -Unavailable."""
        self._fresh.forget()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, self._fresh)

    async def prepare(self, records: Iterable[ConsumerRecord]) -> None:
        """Ask the registry for the schemas of records that are not known yet. One that does not answer is let alone."""
        for record in records:
            for data in (record.key, record.value):
                if data is not None and len(data) > _FRAME_BYTES and data[0] == _MAGIC:
                    await self._ask_for(bytes(data))

    async def _ask_for(self, data: bytes) -> None:
        frame, loop = data[:_FRAME_BYTES], asyncio.get_running_loop()
        if frame in self._asked or loop.time() < self._paused_until_s:
            return
        try:
            self._reader.read(data)
        except SchemaMissing as missing:
            try:
                await missing.load()
            except KafkaError as error:
                _log.warning("the schema of a record is not known: %s", error)
                self._paused_until_s = loop.time() + _PAUSE_S
                return
        except Exception as error:  # noqa: BLE001 - what does not decode is said when it is shown
            _log.debug("a value has the frame of a schema, and is not of it: %s", error)
        self._asked[frame] = None
        if len(self._asked) > MAX_IDS:
            del self._asked[next(iter(self._asked))]
