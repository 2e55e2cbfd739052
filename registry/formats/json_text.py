"""JSON texts of schemas: read within bounds, and written compactly.

Depth is checked before anything walks a schema, so no walk needs a bound of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import import_module
from math import isinf
from typing import Any, cast

from ..errors import InvalidSchema

# Beyond this a generator has gone wrong, or somebody wants our stack: Python's recursion ends at 1,000 frames, and each
# level of a schema takes up to four.
MAX_DEPTH = 100
# Confluent's cloud takes as much.
MAX_SCHEMA_BYTES = 1 << 20
# Python makes them in one go, in which no other thread runs: this many take some 15 ms. Texts that hold brackets count,
# too. The densest schemas of the largest size have 50,000.
MAX_CONTAINERS = 1 << 16


def read(text: str) -> Any:
    """Return the value of a JSON text. Raises InvalidSchema for what is no JSON, or too large or too deep."""
    if len(text) > MAX_SCHEMA_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_SCHEMA_BYTES:
        raise InvalidSchema(f"the schema is larger than {MAX_SCHEMA_BYTES} bytes")
    if text.count("[") + text.count("{") > MAX_CONTAINERS:
        raise InvalidSchema(f"the schema has more than {MAX_CONTAINERS} lists and objects")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise InvalidSchema(f"the schema is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise InvalidSchema(f"no JSON: {error}") from None
    _check_depth(value)
    return value


def compact(value: Any, *, sort_keys: bool = False) -> str:
    """Return JSON without spaces, as Java's writers make it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)


def re2_of(pattern: str) -> Any:
    """Return a pattern as RE2 compiles it, which searches in linear time; None where RE2 does not know it.

    Raises ModuleNotFoundError.
    """
    re2: Any = import_module("re2")  # RE2 has no types
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError):
        return None


def _refuse_constant(name: str) -> Any:
    raise InvalidSchema(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    """Return a number. Raises InvalidSchema for one that would be written as Infinity, which is no JSON."""
    value = float(text)
    if isinf(value):
        raise InvalidSchema(f"{text[:100]} is too large a number")
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for each in level for child in _children(each)]
        if not level:
            return
    raise InvalidSchema(f"the schema is nested deeper than {MAX_DEPTH} levels")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()
