"""The options of typed keys and values: `valueFormat`, `valueSchema`, `valueAvroSchema`, those of keys, and `mode`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec

from .columns import MODES, Format
from .errors import OptionError

FORMATS = ("json", "msgpack", "avro", "string")


def formats_of(texts: Mapping[str, str]) -> dict[str, Format]:
    """Return the formats of the columns that have one, from texts by name in lower case. Raises OptionError."""
    mode = texts.get("mode", "PERMISSIVE").strip().upper()
    if mode not in MODES:
        raise OptionError("mode", f"'{texts['mode']}' is none of {', '.join(MODES)}")
    found = {column: _format(texts, column, mode) for column in ("key", "value")}
    formats = {column: each for column, each in found.items() if each is not None}
    if "mode" in texts and not formats:
        raise OptionError("mode", "needs valueFormat or keyFormat: bytes are never malformed")
    return formats


def _format(texts: Mapping[str, str], column: str, mode: str) -> Format | None:
    name, schema = texts.get(f"{column}format"), texts.get(f"{column}schema")
    avro_schema = texts.get(f"{column}avroschema")
    if name is None:
        for option, given in ((f"{column}Schema", schema), (f"{column}AvroSchema", avro_schema)):
            if given is not None:
                raise OptionError(option, f"needs {column}Format")
        return None
    name = name.strip().lower()
    if name not in FORMATS:
        raise OptionError(f"{column}Format", f"'{name}' is none of {', '.join(FORMATS)}")
    if (schema is None) != (name == "string"):
        missing = f"must be given for {name}: fields and types, as 'id BIGINT'"
        raise OptionError(f"{column}Schema", missing if schema is None else "is not for strings")
    check_avro(column, name, avro_schema)
    return Format(name, mode, schema, avro_schema)


def check_avro(column: str, name: str, avro_schema: str | None) -> None:
    """Raise OptionError unless a format that needs a schema of Avro has one, and no other has one."""
    if name != "avro":
        if avro_schema is not None:
            raise OptionError(f"{column}AvroSchema", f"is not for {name}")
        return
    if avro_schema is None:
        raise OptionError(f"{column}AvroSchema", "must be given: the schema of the writer, in JSON")
    try:
        json.loads(avro_schema)
    except ValueError as error:
        raise OptionError(f"{column}AvroSchema", f"is not JSON: {error}") from None
    if find_spec("fastavro") is None:
        raise OptionError(
            f"{column}Format", "avro needs the package fastavro: pip install 'odradek[avro]' ('.[avro]' in a clone)"
        )
