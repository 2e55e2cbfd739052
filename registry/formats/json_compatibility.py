"""Compatibility of JSON Schemas: does a reader's schema take every value that the writer's schema allows, and why not.

A schema is the sum of what it says: its keywords, what its `$ref` leads to, its `allOf`, `anyOf` and `oneOf`. The
reader takes all of the writer's values if each of these things follows from one that the writer says. What this cannot
prove counts as a difference, so a registry may refuse more than it must, but never less. One exception is Confluent's
rule: a required property that has a default counts as optional.

The kinds of differences have Confluent's names. An open object (no `additionalProperties`) may have held any property,
so a property with a schema of its own cannot be added to it; to a closed one (`false`) an optional property can. A
keyword without a rule here must be the same on both sides, with all that its `$ref`s lead to, or be missing in the
reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ..errors import RegistryError
from .difference import Difference, Steps
from .json_keywords import FIXED, bounds, difference, enums, is_about, multiples, required, types, types_of
from .json_sameness import are_disjoint, are_same
from .json_schema import JsonSchema, Node, as_list
from .json_text import re2_of

# Of searches with patterns of RE2: a step is so many characters times instructions, and each search costs some more.
_STEP_COST, _SEARCH_COST = 2_000, 200
# What `true` allows. One object, because pairs are known by address.
_ANYTHING: dict[str, Any] = {}


def differences(reader: JsonSchema, writer: JsonSchema, steps: Steps | None = None) -> list[Difference]:
    """Return why `reader` cannot read what `writer` allows; nothing if it can. Raises RegistryError past the bound."""
    return _Comparison(steps or Steps()).compare(reader.root, writer.root, "#")


class _Comparison:
    """One comparison of two schemas, with the pairs that it has seen."""

    def __init__(self, steps: Steps) -> None:
        self._seen: dict[tuple[int, int], list[Difference]] = {}
        # Pairs without a difference, in the order in which that was found.
        self._equal: list[tuple[int, int]] = []
        self._steps = steps
        # What the comparison made of schemas, by their addresses and names: pairs are known by address, so these stay.
        self._made: dict[tuple[int, str], Any] = {}

    def compare(self, reader: Node, writer: Node, path: str) -> list[Difference]:
        reader, writer = reader.resolved(), self._said(writer.resolved())
        if reader.value in ({}, True) or writer.value is False:
            return []
        if reader.value is False:
            return [difference("TYPE_NARROWED", path)]
        pair = (id(reader.value), id(writer.value))
        if pair in self._seen:
            return self._seen[pair]
        self._steps.take()
        before = len(self._equal)
        self._seen[pair] = []
        found = list(islice(self._different(reader, writer, path), Steps.MAX_DIFFERENCES))
        if found:
            # What was equal only because this pair counted as equal is not known any more.
            for other in self._equal[before:]:
                del self._seen[other]
            del self._equal[before:]
        else:
            self._equal.append(pair)
        self._seen[pair] = found
        return found

    def _said(self, writer: Node) -> Node:
        """Return what the writer's schema says by the rules of its draft, resolved."""
        if isinstance(writer.value, bool):
            return writer.inner(_ANYTHING) if writer.value else writer
        found = self._once(writer, "said", writer.said)
        return found if found.value is writer.value else self._said(found.resolved())

    def _once(self, node: Node, name: str, make: Callable[[], Any]) -> Any:
        key = (id(node.value), name)
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _different(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        if "unevaluatedProperties" in reader.value or "unevaluatedItems" in reader.value:
            # They depend on all that stands beside them.
            if not self._are_same(reader, writer) and not self._follows_from_part(reader, writer, path):
                yield difference("UNEVALUATED_PROPERTIES_CHANGED", path)
            return
        beside = self._once(reader, "beside", lambda: reader.inner(_without(reader.value, _COMBINED)))
        found = list(islice(self._keywords(beside, writer, path), Steps.MAX_DIFFERENCES))
        # What stands beside the writer's combined schemas may allow more than those do.
        if found and not self._follows_from_part(beside, writer, path):
            yield from found
        yield from self._sums(reader, writer, path)
        yield from self._products(reader, writer, path)

    def _keywords(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        """Compare all but combined schemas."""
        for rule in (types, enums, bounds, multiples):
            yield from rule(reader.value, writer.value, path)
        yield from self._fixed(reader, writer, path)
        kinds = types_of(writer.value)
        if "object" in kinds:
            yield from self._objects(reader, writer, path)
        if "array" in kinds:
            yield from self._arrays(reader, writer, path)

    def _fixed(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        for keyword, (name, others) in FIXED.items():
            if keyword not in reader.value or not is_about(keyword, writer.value):
                continue
            # With the keyword, for a target of its own may stand behind `$dynamicRef`.
            ours, theirs = (
                each.inner({word: each.value[word] for word in (keyword, *others) if word in each.value})
                for each in (reader, writer)
            )
            if not self._are_same(ours, theirs):
                yield difference(f"{name}_{'CHANGED' if keyword in writer.value else 'ADDED'}", path)

    def _are_same(self, one: Node, other: Node) -> bool:
        return are_same(one, other, self._steps.take)

    # -- Combined schemas

    def _follows_from_part(self, reader: Node, writer: Node, path: str) -> bool:
        """Tell whether the reader takes one of the writer's allOf, or each of its oneOf or anyOf."""
        if any(not self.compare(reader, each, path) for each in writer.musts()):
            return True
        sums = [writer.value[name] for name in ("oneOf", "anyOf") if name in writer.value]
        return any(all(not self.compare(reader, writer.inner(each), path) for each in branches) for branches in sums)

    def _sums(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        """Each branch of the writer must be read by one of the reader's; one that has none is a branch itself."""
        for keyword in ("oneOf", "anyOf"):
            if keyword not in reader.value or self._is_kept(reader, writer, keyword):
                continue
            branches = [reader.inner(each) for each in reader.value[keyword]]
            used = next((name for name in (keyword, "oneOf", "anyOf") if name in writer.value), "")
            written = [self._typed(writer, each) for each in writer.value[used]] if used else self._by_type(writer)
            for index, each in enumerate(written):
                others = written[:index] + written[index + 1 :] if used == "oneOf" else []
                if not self._reads_one(branches, each, others, path, alone=keyword == "oneOf"):
                    kind = "SUM_TYPE_NARROWED" if used else "COMBINED_TYPE_CHANGED"
                    yield difference(kind, f"{path}/{keyword}/{index}")

    def _typed(self, writer: Node, branch: Any) -> Node:
        """Return a branch of the writer with the type that stands beside it, if it has none of its own."""
        if not isinstance(branch, dict) or "type" in branch or "type" not in writer.value:
            return writer.inner(branch)
        return self._once(writer.inner(branch), "typed", lambda: writer.inner({"type": writer.value["type"]} | branch))

    def _by_type(self, writer: Node) -> list[Node]:
        """Return the writer once for each type that it lists."""
        kinds = as_list(writer.value.get("type", []))
        if len(kinds) < 2:
            return [writer]
        made = [writer.inner(writer.value | {"type": kind}) for kind in kinds]
        return self._once(writer, "by type", lambda: made)

    def _is_kept(self, reader: Node, writer: Node, keyword: str) -> bool:
        ours, theirs = reader.value[keyword], writer.value.get(keyword)
        return theirs is not None and self._are_same(reader.inner(ours), writer.inner(theirs))

    def _reads_one(self, branches: list[Node], writer: Node, others: list[Node], path: str, *, alone: bool) -> bool:
        """Tell whether a branch takes the writer's values, and, `alone`, no other one takes any.

        The values are of none of the writer's `others`.
        """
        return any(
            not self.compare(branch, writer, path)
            and (
                not alone
                or all(self._excludes(each, writer, others, path) for each in branches[:at] + branches[at + 1 :])
            )
            for at, branch in enumerate(branches)
        )

    def _excludes(self, branch: Node, writer: Node, others: list[Node], path: str) -> bool:
        """Tell whether no value of the writer, which is of none of the others, is one of the branch."""
        if are_disjoint(branch, writer, self._steps.take):
            return True
        return any(not self.compare(other, branch, path) for other in others)

    def _products(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        """Each schema of the reader's allOf must read one of the writer's, or the writer's schema around them."""
        musts = reader.musts()
        if not musts:
            return
        around = self._once(writer, "around", lambda: writer.inner(_without(writer.value, _PRODUCTS)))
        written = [*writer.musts(), around]
        for index, each in enumerate(musts):
            if all(self.compare(each, other, path) for other in written):
                yield difference("PRODUCT_TYPE_EXTENDED", f"{path}/allOf/{index}")

    # -- Objects

    def _objects(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        ours, theirs = reader.value.get("properties", {}), writer.value.get("properties", {})
        names = [*theirs, *(name for name in ours if name not in theirs)]
        our_covers, their_covers = self._covers(reader, names), self._covers(writer, names)
        for name in names:
            place = f"{path}/properties/{name}"
            for cover in our_covers[name]:
                found = [self.compare(cover, other, place) for other in their_covers[name]]
                if not all(found):
                    continue
                if name in ours and name in theirs and cover.value is ours[name]:
                    yield from found[0]
                else:
                    yield difference(_kind_of(cover, their_covers[name], is_removed=name in theirs), place)
        yield from required(reader.value, writer.value, path)
        yield from self._patterns(reader, writer, path)
        closed = _additional(reader).value is False
        if self.compare(_additional(reader), _additional(writer), path):
            yield difference(f"ADDITIONAL_PROPERTIES_{'REMOVED' if closed else 'NARROWED'}", path)

    def _covers(self, node: Node, names: list[str]) -> dict[str, list[Node]]:
        """Return the schemas that a property must have, by name: its own, and those of all patterns that match."""
        own = node.value.get("properties", {})
        found = {name: [node.inner(own[name])] if name in own else [] for name in names}
        for pattern, each in node.value.get("patternProperties", {}).items():
            for name in self._matching(pattern, names):
                found[name].append(node.inner(each))
        return {name: covers or [_additional(node)] for name, covers in found.items()}

    def _matching(self, pattern: str, names: list[str]) -> list[str]:
        """Return the names in which a pattern is found, in linear time: both are somebody else's."""
        if not names:
            return []
        compiled = _compiled(pattern)
        cost = compiled.programsize * sum(map(len, names)) + _SEARCH_COST * len(names)
        self._steps.take(1 + cost // _STEP_COST)
        return [name for name in names if compiled.search(_as_utf8(name)) is not None]

    def _patterns(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        ours, theirs = reader.value.get("patternProperties", {}), writer.value.get("patternProperties", {})
        for pattern, each in ours.items():
            # Another pattern of the writer may cover the same names: nothing here compares two patterns.
            covers = [theirs[pattern]] if pattern in theirs else [*theirs.values(), _additional(writer).value]
            if any(self.compare(reader.inner(each), writer.inner(cover), path) for cover in covers):
                yield difference("PATTERN_PROPERTY_NARROWED", f"{path}/patternProperties/{pattern}")
        for pattern, each in theirs.items():
            if pattern not in ours and self.compare(_additional(reader), writer.inner(each), path):
                yield difference("PATTERN_PROPERTY_REMOVED", f"{path}/patternProperties/{pattern}")

    # -- Arrays

    def _arrays(self, reader: Node, writer: Node, path: str) -> Iterator[Difference]:
        if reader.value.get("uniqueItems") is True and writer.value.get("uniqueItems") is not True:
            yield difference("UNIQUE_ITEMS_ADDED", path)
        (ours, our_rest), (theirs, their_rest) = _items(reader.value), _items(writer.value)
        for index in range(max(len(ours), len(theirs))):
            one = ours[index] if index < len(ours) else our_rest
            other = theirs[index] if index < len(theirs) else their_rest
            yield from self.compare(reader.inner(one), writer.inner(other), f"{path}/items/{index}")
        yield from self.compare(reader.inner(our_rest), writer.inner(their_rest), f"{path}/items")


_PRODUCTS = frozenset({"allOf", "$ref"})
_COMBINED = frozenset({"oneOf", "anyOf"}) | _PRODUCTS


def _without(schema: dict[str, Any], keywords: frozenset[str]) -> dict[str, Any]:
    """Return a schema without keywords: the same object where it has none of them."""
    return {key: each for key, each in schema.items() if key not in keywords} if keywords & schema.keys() else schema


def _kind_of(cover: Node, their_covers: list[Node], *, is_removed: bool) -> str:
    """Return the difference of a property whose schema the reader takes from a pattern, or which it adds."""
    if is_removed:
        model = "FROM_CLOSED_CONTENT_MODEL" if cover.value is False else _NOT_COVERED
        return f"PROPERTY_REMOVED_{model}"
    is_open = their_covers[0].value in ({}, True)
    return f"PROPERTY_ADDED_{'TO_OPEN_CONTENT_MODEL' if is_open else _NOT_COVERED}"


_NOT_COVERED = "NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"


def _additional(node: Node) -> Node:
    """Return the schema of a property that neither a name nor a pattern covers."""
    return node.inner(node.value.get("additionalProperties", True))


def _as_utf8(name: str) -> str:
    """Return a name as RE2 can read it: half a character of UTF-16, which JSON can name, is one that is unknown."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _compiled(pattern: str) -> Any:
    """Return a pattern of RE2. Raises RegistryError for one that only Python knows."""
    try:
        found, why = re2_of(pattern), "RE2 does not know it"
    except ModuleNotFoundError:
        found, why = None, "this needs google-re2, which is not installed here"
    if found is None:
        raise RegistryError(42201, f"The pattern {pattern[:200]!r} cannot be compared: {why}")
    return found


def _items(schema: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the schemas of the first items, and that of the others."""
    items = schema.get("items", True)
    if isinstance(items, list):
        return as_list(items), schema.get("additionalItems", True)
    return schema.get("prefixItems", []), items
