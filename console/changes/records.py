"""Changes of records: produce one."""

from __future__ import annotations

import json
from typing import Any

from ...client import Admin
from ..journal import Change
from ..visit import Visit
from .kind import Field, Fields, InvalidForm, Kind, pairs, required, whole_number

_NULL = "null"
_CHOICES = ("text", _NULL)


async def _produce(visit: Visit, admin: Admin, fields: Fields) -> Change:
    name = required(fields, "topic")
    topic = (await admin.describe_topics(name))[name]
    partition = whole_number(fields, "partition")
    if partition is not None and partition >= len(topic.partitions):
        raise InvalidForm(f"{name} has partitions from 0 to {len(topic.partitions) - 1}")
    # Browsers send the lines of an area with both characters.
    key, value = (
        None if fields[f"{each}-is"] == _NULL else fields[each].replace("\r\n", "\n") for each in ("key", "value")
    )
    headers = list(pairs(fields["headers"]).items())

    async def apply() -> object:
        async with visit.cluster.producer() as producer:
            return await (
                await producer.send(
                    name,
                    None if value is None else value.encode(),
                    key=None if key is None else key.encode(),
                    partition=partition,
                    headers=[(each, text.encode()) for each, text in headers],
                )
            )

    row: dict[str, Any] = {"key": key, "value": value}
    row |= {"headers": headers} if headers else {}
    row |= {"partition": partition} if partition is not None else {}
    arguments = ["produce", "--json", *(["--keep-partitions"] if partition is not None else [])]
    size = len((value or "").encode())
    where = "by its key" if partition is None else str(partition)
    effects = [("partition", "", where), ("key", "", key or _NULL), ("value", "", f"{size} bytes")]
    piped = ["printf", "%s\\n", json.dumps(row, ensure_ascii=False)]
    then = f"/topics/{name}/records"
    return Change(f"Produce a record to {name}", arguments, apply, effects, then=then, piped=piped, name=name)


KINDS = {
    "produce": Kind(
        "Produce a record",
        (
            Field("topic", "Topic", required=True),
            Field("key-is", "The key is", choices=_CHOICES, default=_NULL),
            Field("key", "Key", "area"),
            Field("value-is", "The value is", choices=_CHOICES, default="text", hint="null: a tombstone"),
            Field("value", "Value", "area"),
            Field("headers", "Headers", "area", hint="NAME=VALUE, one a line"),
            Field("partition", "Partition", "number", hint="Empty: by the key"),
        ),
        _produce,
    ),
}
