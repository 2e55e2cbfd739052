"""Responses that carry an error to where a client looks for it, for any API.

A response mirrors its request: the topics, partitions, groups or ids of the request come back, each with the error. The
table names the list of the request that a list of the response answers, where the two have different names.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..protocol.apis import ApiKey, key_of, message
from ..protocol.errors import ErrorCode
from ..protocol.schema import Field, Message, Struct, span
from .faults import Fault, items_of, partition_of, topic_of

# The topic of an id; None where there is none.
Names = Callable[[bytes], str | None]

_ANSWERS = {
    "responses": ("topic_data", "topics", "topic_names", "resources"),
    "partition_responses": ("partition_data",),
    "partitions": ("partitions", "partition_indexes"),
    "results": ("topics", "resources", "groups_names", "creations", "upsertions", "deletions"),
    "groups": ("group_ids",),
    "filter_results": ("filters",),
    "coordinators": ("coordinator_keys",),
    "transaction_states": ("transactional_ids",),
    "results_by_transaction": ("transactions",),
    "topic_results": ("topics",),
    "results_by_topic_v3_and_below": ("v3_and_below_topics",),
    "results_by_partition": ("partitions",),
    "partition_results": ("partitions",),
    "replica_election_results": ("topic_partitions",),
    "partition_result": ("partitions",),
}
# A field of a response and what the request may call it.
_SAME = {
    "name": ("topic",),
    "topic": ("name",),
    "user": ("name",),
    "index": ("partition_index", "partition"),
    "partition": ("index", "partition_index"),
    "partition_index": ("index", "partition"),
}
_ERRORS = ("error_code", "partition_error_code")
# The response of these needs what only the broker knows (the brokers' addresses, say), and a request changes nothing
# that a test could miss: the broker answers it, and the error is put in.
_ANSWERED = {ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER, ApiKey.API_VERSIONS}


def is_answered_first(key: int) -> bool:
    """Tell whether the error goes into the broker's own response."""
    return key in _ANSWERED


def rejection(request: Message, version: int, error: ErrorCode, fault: Fault, names: Names) -> Message:
    """Return the response that rejects a request with an error: all of it, or the places of the fault."""
    assert request.KEY is not None
    response = message(key_of(request.KEY), "response")()
    _mirror(request, response, version, error, fault, names, is_top=True)
    return response


def put_error(response: Struct, version: int, error: ErrorCode, fault: Fault, names: Names) -> None:
    """Put an error into a response of the broker: everywhere, or at the places of the fault."""
    arrays = [
        items_of(response, each.name)
        for each in type(response).FIELDS
        if _is_structs(each) and version in span(each.versions)
    ]
    full = [items for items in arrays if any(map(_has_error, items))]
    if not full:
        _set_error(response, version, error)
    for items in full:
        for item in items:
            if _is_meant(item, fault, names):
                _set_error(item, version, error)
                put_error(item, version, error, fault, names)


def rest_of(request: Message, fault: Fault, names: Names) -> Message | None:
    """Return the request without the places of a fault; None where nothing is left."""
    rest = copy.copy(request)
    is_left = False
    for each in type(request).FIELDS:
        if each.kind != "array":
            continue
        left = [_rest_of_topic(item, fault, names) for item in items_of(request, each.name)]
        kept = [item for item in left if item is not None]
        is_left = is_left or bool(kept)
        setattr(rest, each.name, kept)
    return rest if is_left else None


def join(response: Message, more: Message) -> Message:
    """Return a response with the entries of another one behind its own."""
    for each in type(response).FIELDS:
        if each.kind == "array":
            items_of(response, each.name).extend(items_of(more, each.name))
    return response


def _rest_of_topic(item: Any, fault: Fault, names: Names) -> Any:
    """Return an entry of a request without the places of a fault; None where nothing of it is left."""
    topic = topic_of(item, names)
    if not isinstance(item, Struct) or topic is None or not fault.is_at(topic, None):
        return item
    if fault.partition is None:
        return None
    kept = copy.copy(item)
    left = False
    for each in type(item).FIELDS:
        if each.kind == "array":
            entries = [entry for entry in items_of(item, each.name) if partition_of(entry) != fault.partition]
            setattr(kept, each.name, entries)
            left = left or bool(entries)
    return kept if left else None


def _mirror(
    asked: Struct, answer: Struct, version: int, error: ErrorCode, fault: Fault, names: Names, *, is_top: bool = False
) -> None:
    """Fill `answer` with the fields of `asked`, list by list, and with the error."""
    filled = False
    for each in type(answer).FIELDS:
        if version not in span(each.versions):
            continue
        if _is_structs(each):
            items = [_mirrored(item, each, version, error, fault, names) for item in _asked_items(asked, each.name)]
            items = [item for item in items if item is not None]
            setattr(answer, each.name, items)
            filled = filled or any(map(_has_error, items))
        elif each.kind == "records":
            setattr(answer, each.name, b"")
        elif each.name != "throttle_time_ms":
            _copy_field(asked, answer, each)
    # The error of a whole response goes before those of its entries, which clients then do not look at.
    if not (is_top and filled):
        _set_error(answer, version, error)


def _mirrored(item: Any, field: Field, version: int, error: ErrorCode, fault: Fault, names: Names) -> Struct | None:
    if not _is_meant(item, fault, names):
        return None
    answer = field.struct()()
    if isinstance(item, Struct):
        _mirror(item, answer, version, error, fault, names)
    else:
        kinds = ("string",) if isinstance(item, str) else ("int32",)
        name = next(each.name for each in type(answer).FIELDS if each.kind in kinds and each.name != "error_message")
        setattr(answer, name, item)
        _set_error(answer, version, error)
    return answer


def _is_meant(item: Any, fault: Fault, names: Names) -> bool:
    topic = topic_of(item, names)
    if topic is not None:
        return fault.is_at(topic, None)
    partition = partition_of(item)
    return None in (fault.partition, partition) or partition == fault.partition


def _asked_items(asked: Struct, name: str) -> list[Any]:
    for candidate in (name, *_ANSWERS.get(name, ())):
        found = getattr(asked, candidate, None)
        if isinstance(found, list) and found:
            return found  # pyright: ignore[reportUnknownVariableType]
    return []


def _copy_field(asked: Struct, answer: Struct, field: Field) -> None:
    for name in (field.name, *_SAME.get(field.name, ())):
        value = getattr(asked, name, None)
        if value is not None and not isinstance(value, list | Struct):
            setattr(answer, field.name, value)
            return


def _set_error(item: Any, version: int, error: ErrorCode) -> None:
    for each in type(item).FIELDS if isinstance(item, Struct) else ():
        if each.name in _ERRORS and version in span(each.versions):
            setattr(item, each.name, int(error))
        elif each.name == "base_offset":
            item.base_offset = -1  # type: ignore[attr-defined]


def _is_structs(field: Field) -> bool:
    return field.kind == "array" and field.of is None


def _has_error(item: Any) -> bool:
    """Tell whether an entry of a response, or one below it, has a field for an error."""
    if not isinstance(item, Struct):
        return False
    fields = type(item).FIELDS
    below = [entry for each in fields if _is_structs(each) for entry in items_of(item, each.name)]
    return any(each.name in _ERRORS for each in fields) or any(map(_has_error, below))
