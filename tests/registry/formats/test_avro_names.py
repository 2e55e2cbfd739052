"""Names of Avro: the canonical text means the schema that was given, whatever its types are called."""
# pyright: basic

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from odradek.registry.formats.avro import AvroType, canonical, parse

NAMES = st.sampled_from(["A", "B", "int", "map", "record", "string"])
SPACES = st.sampled_from(["x", "y", "x.z"])
FULL = st.builds(lambda space, name: f"{space}.{name}", SPACES, NAMES)


def record(outer: str, names: list[str], aliases: list[str], as_they_are: list[bool]) -> Any:
    """Return a record whose fields define types of these names, and then name them: in full, or as short as may be."""
    fields: list[dict[str, Any]] = []
    for number, (name, is_full) in enumerate(zip(names, as_they_are, strict=False)):
        space, _, short = name.rpartition(".")
        kind = {"type": "fixed", "name": name if is_full else short, "size": 1, "namespace": space}
        kind = {**kind, "namespace": None} if space == outer and number % 2 else kind
        short = short if space == outer and not is_full and short in ("A", "B") else name
        fields += [
            {"name": f"d{number}", "type": kind},
            {"name": f"u{number}", "type": {"type": "array", "items": short}},
        ]
    return {"type": "record", "name": f"{outer}.R", "aliases": aliases, "fields": fields}


SCHEMAS = st.builds(
    record, SPACES, st.lists(FULL, unique=True, min_size=1, max_size=4), st.lists(FULL | NAMES, max_size=3),
    st.lists(st.booleans(), min_size=4, max_size=4),
)  # fmt: skip


def meaning(kind: AvroType, around: tuple[str, ...] = ()) -> Any:
    """Return what a type is, with full names, and what is in it."""
    if kind.name in around:
        return kind.name
    inside = (*around, kind.name) if kind.name else around
    parts = [*kind.inner, *(each.type for each in kind.fields)]
    return kind.kind, kind.name, sorted(kind.aliases), [meaning(each, inside) for each in parts]


@given(SCHEMAS)
def test_the_canonical_text_means_the_same(schema: Any) -> None:
    given_type = parse(json.dumps(schema))
    text = canonical(given_type)
    again = parse(text)
    assert meaning(again) == meaning(given_type)
    assert canonical(again) == text
