"""Send the same requests to two schema registries with Confluent's API and print where the answers differ.

    python tools/compare_registries.py http://HOST:PORT/apis/ccompat/v7 http://HOST:PORT [--pairs N] [--seed N]

The first one is another registry, such as Apicurio's, the second one Odradek's. Compared are the HTTP status, the error
code and what an answer says, without ids (which registries count in their own way) and without wording. `--pairs` is
how many pairs of schemas are compared by each of the two for compatibility; a seed makes them again. Subjects have a
prefix of this run. Exit status 1 if something differs.

Apicurio 3.0.9 (Maven: io.apicurio:apicurio-registry-app, classifier `all`, type tar.gz; Java 17) differs from
Confluent's own documentation, which Odradek follows, in these: `compatibilityLevel` in the answer to PUT /config,
404 for a version that is no number, 409 as the status of 40405 and 40407, 500 for an unknown level or type. All pairs
of schemas were judged alike (2026-11-24, 700 pairs).
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

Step = tuple[str, str, Any]
LEVELS = ("BACKWARD", "FORWARD", "FULL")


class Registry:
    """One of the two."""

    def __init__(self, url: str, prefix: str) -> None:
        self.url, self._prefix = url.rstrip("/"), prefix

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the JSON of an answer. `$` in a path stands for the prefix of the run."""
        data = None if body is None else json.dumps(body).replace("$", self._prefix).encode()
        request = urllib.request.Request(self.url + path.replace("$", self._prefix), data, method=method)
        request.add_header("content-type", "application/vnd.schemaregistry.v1+json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")


def schema(*fields: Any) -> dict[str, str]:
    return {"schema": json.dumps({"type": "record", "name": "R", "fields": list(fields)})}


A, B = {"name": "a", "type": "int"}, {"name": "b", "type": "string"}
B_OR_X = {**B, "default": "x"}
CLOSED = {"schemaType": "JSON", "schema": '{"type":"object","properties":{"a":{"type":"integer"}}}'}
STEPS: list[Step] = [
    ("PUT", "/config", {"compatibility": "BACKWARD"}),
    ("GET", "/subjects/$none/versions", None),
    ("GET", "/schemas/ids/999999", None),
    ("POST", "/subjects/$s/versions", schema(A)),
    ("POST", "/subjects/$s/versions", schema(A)),
    ("POST", "/subjects/$s/versions", schema(A, B)),
    ("POST", "/subjects/$s/versions", schema(A, B_OR_X)),
    ("GET", "/subjects/$s/versions", None),
    ("GET", "/subjects/$s/versions/1", None),
    ("GET", "/subjects/$s/versions/latest", None),
    ("GET", "/subjects/$s/versions/9", None),
    ("GET", "/subjects/$s/versions/x", None),
    ("POST", "/subjects/$s", schema(A)),
    ("POST", "/subjects/$s", schema(B)),
    ("POST", "/subjects/$none", schema(A)),
    ("POST", "/subjects/$s/versions", {"schema": "{"}),
    ("POST", "/subjects/$s/versions", {"schema": '{"type":"record"}'}),
    ("POST", "/compatibility/subjects/$s/versions/latest", schema(A, B)),
    ("PUT", "/config/$s", {"compatibility": "FORWARD"}),
    ("GET", "/config/$s", None),
    ("PUT", "/config/$s", {"compatibility": "SOME"}),
    ("POST", "/subjects/$s/versions", schema(A, B)),
    ("GET", "/subjects/$s/versions", None),
    ("DELETE", "/subjects/$s/versions/9", None),
    ("DELETE", "/subjects/$s/versions/1?permanent=true", None),
    ("DELETE", "/subjects/$s/versions/1", None),
    ("GET", "/subjects/$s/versions/1", None),
    ("GET", "/subjects/$s/versions", None),
    ("DELETE", "/config/$s", None),
    ("DELETE", "/subjects/$s?permanent=true", None),
    ("DELETE", "/subjects/$s", None),
    ("DELETE", "/subjects/$s", None),
    ("GET", "/subjects/$s/versions", None),
    ("GET", "/subjects/$s/versions?deleted=true", None),
    ("DELETE", "/subjects/$s?permanent=true", None),
    ("GET", "/subjects/$s/versions?deleted=true", None),
    ("POST", "/subjects/$i/versions", {"schema": '{"type":"fixed","name":"n.F","size":1}'}),
    ("POST", "/subjects/$o/versions", schema({"name": "f", "type": "n.F"})
        | {"references": [{"name": "n.F", "subject": "$i", "version": 1}]}),
    ("GET", "/subjects/$o/versions/1", None),
    ("DELETE", "/subjects/$i/versions/1", None),
    ("POST", "/subjects/$j/versions", CLOSED),
    ("POST", "/subjects/$j/versions", {"schemaType": "JSON", "schema": '{"type":"object","required":["z"]}'}),
    ("POST", "/subjects/$j/versions", {"schemaType": "JSON", "schema": '{"type":"nothing"}'}),
    ("POST", "/subjects/$j/versions", {"schemaType": "OTHER", "schema": "{}"}),
]  # fmt: skip
_WORDS = {"message", "id", "messages", "guid", "schema", "references", "schemaId", "maxId", "ts"}


def said(status: int, answer: Any) -> Any:
    """Return what is compared of an answer."""
    if isinstance(answer, dict):
        kept = {name: each for name, each in answer.items() if name not in _WORDS and each is not None}
        if kept.get("schemaType") == "AVRO":  # Confluent's leaves it out
            del kept["schemaType"]
        if isinstance(answer.get("schema"), str):
            kept["schema"] = json.loads(answer["schema"])
        return status, kept
    return status, answer


# -- Pairs of schemas

_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def kind(choice: random.Random, depth: int = 2) -> Any:
    """Return a schema of Avro by chance."""
    which = choice.randrange(9 if depth else 6)
    if which < 4:
        return choice.choice(_PRIMITIVES)
    if which == 4:
        return {"type": "enum", "name": "E", "symbols": sorted(choice.sample("ABC", choice.randint(1, 3)))}
    if which == 5:
        return {"type": "fixed", "name": "F", "size": choice.randint(1, 2)}
    if which == 6:
        return {"type": "array", "items": kind(choice, 0)}
    if which == 7:
        return sorted(choice.sample(_PRIMITIVES, choice.randint(1, 3)))
    return {"type": "map", "values": kind(choice, 0)}


def record(choice: random.Random) -> dict[str, str]:
    fields: list[Any] = []
    for name in "abc":
        if choice.random() < 0.6:
            fields.append({"name": name, "type": kind(choice)})
        elif choice.random() < 0.5:
            fields.append({"name": name, "type": "int", "default": 1})
    # A name is defined once in a schema.
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    for name in "EF":
        first, *rest = text.split(f'"name": "{name}"')
        text = first + "".join(f'"name": "{name}{number}"{part}' for number, part in enumerate(rest))
    return {"schema": text}


def verdicts(registries: tuple[Registry, Registry], pairs: int, seed: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield a description of each pair with what each registry says of it."""
    choice = random.Random(seed)
    for number in range(pairs):
        writer, reader, level = record(choice), record(choice), choice.choice(LEVELS)
        answers: list[Any] = []
        for each in registries:
            each.ask("POST", f"/subjects/$p{number}/versions", writer)
            each.ask("PUT", f"/config/$p{number}", {"compatibility": level})
            status, answer = each.ask("POST", f"/compatibility/subjects/$p{number}/versions/latest", reader)
            answers.append((status, answer.get("is_compatible")))
        yield f"{level}: {reader['schema']} after {writer['schema']}", answers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other")
    parser.add_argument("odradek")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    prefix = f"run{int(time.time())}-"
    registries = (Registry(given.other, prefix), Registry(given.odradek, prefix))
    different = 0
    for method, path, body in STEPS:
        answers = [each.ask(method, path, body) for each in registries]
        if said(*answers[0]) != said(*answers[1]):
            different += 1
            print(f"{method} {path} {'' if body is None else json.dumps(body)}")
            for each, answer in zip(("other", "odradek"), answers, strict=True):
                print(f"  {each:8} {answer[0]} {json.dumps(answer[1])[:300]}")
    for text, answers in verdicts(registries, given.pairs, given.seed):
        if answers[0] != answers[1]:
            different += 1
            print(f"{text}\n  other    {answers[0]}\n  odradek  {answers[1]}")
    print(f"{len(STEPS)} requests and {given.pairs} pairs: {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
