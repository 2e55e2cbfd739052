"""Protobuf: stored and served. No parser of .proto is here, so nothing is said about compatibility.

A second version of a subject needs the level NONE; at any other level the registry refuses it rather than guess.
"""

from __future__ import annotations

from ..errors import InvalidSchema, RegistryError
from .json_text import MAX_SCHEMA_BYTES


def canonical(text: str) -> str:
    """Return the text as it is stored. Raises InvalidSchema for an empty one, or one past the bound."""
    if not text.strip():
        raise InvalidSchema("the schema is empty")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_SCHEMA_BYTES:
        raise InvalidSchema(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    return text.strip()


def refuse_comparison() -> RegistryError:
    """Return the error of a check that nothing here can make."""
    return RegistryError(
        42205, "This registry does not compare Protobuf schemas: set the compatibility of the subject to NONE"
    )
