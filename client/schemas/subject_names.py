"""Names of subjects: under which name the registry keeps the versions of a schema. The three are those of Confluent."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import InvalidOption

# (topic, "key" or "value", full name of the record; empty if it is not known yet) -> subject
SubjectName = Callable[[str, str, str], str]


def topic_name(topic: str, field: str, record: str) -> str:
    """Return TOPIC-value or TOPIC-key: all records of a topic have one schema."""
    return f"{topic}-{field}"


def record_name(topic: str, field: str, record: str) -> str:
    """Return the name of the record: it has one schema in all topics."""
    return _known(record)


def topic_record_name(topic: str, field: str, record: str) -> str:
    """Return TOPIC-RECORD: a topic has records of several schemas."""
    return f"{topic}-{_known(record)}"


def _known(record: str) -> str:
    if not record:
        raise InvalidOption("the subject is named by the record, so the serializer needs a schema that has a name")
    return record
