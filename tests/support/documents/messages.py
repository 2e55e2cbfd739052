"""Messages of any API with one value in every field."""

from __future__ import annotations

from typing import Any

from odradek.protocol.schema import Struct, span

_VALUES = {"string": "x", "bytes": b"", "records": b"", "bool": True, "uuid": bytes(range(16)), "float64": 1.0}


def filled(cls: type[Struct], version: int) -> Any:
    """A struct with a value in each field of a version, and one entry in each list."""
    made = cls()
    for each in cls.FIELDS:
        if version not in span(each.versions):
            continue
        if each.kind == "array":
            setattr(made, each.name, [_VALUES.get(each.of, 1) if each.of else filled(each.struct(), version)])
        elif each.kind == "struct":
            setattr(made, each.name, filled(each.struct(), version))
        else:
            setattr(made, each.name, _VALUES.get(each.kind, 1))
    return made
