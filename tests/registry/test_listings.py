"""What each path lists, with and without what is deleted, and how subjects are named with the default context."""

from __future__ import annotations

import json
from typing import Any

import pytest
from odradek.tests.registry.conftest import Client
from odradek.tests.registry.test_api import record


async def _filled(ask: Client) -> None:
    """Register s (1, 2, and 3, which is deleted), t (which is deleted), and u, which refers to s."""
    for names in (("a",), ("a", "b"), ("a", "b", "c")):
        body = record(names[0], **dict.fromkeys(names[1:], 1))
        assert (await ask("POST", "/subjects/s/versions", body))[0] == 200
    await ask("POST", "/subjects/t/versions", record("a"))
    await ask("POST", "/subjects/u/versions", USER)
    await ask("DELETE", "/subjects/s/versions/3")
    await ask("DELETE", "/subjects/t")


USER = {
    "schema": '{"type":"record","name":"U","fields":[{"name":"r","type":"R"}]}',
    "references": [{"name": "R", "subject": "s", "version": 1}],
}
LISTS: list[tuple[str, Any]] = [
    ("/subjects", ["s", "u"]),
    ("/subjects?deleted=true", ["s", "t", "u"]),
    ("/subjects?deletedOnly=true", ["t"]),
    ("/subjects?subjectPrefix=u", ["u"]),
    ("/subjects?subjectPrefix=:.:u", ["u"]),
    ("/subjects?subjectPrefix=:*:", ["s", "u"]),
    ("/subjects?offset=1&limit=1", ["u"]),
    ("/subjects/s/versions", [1, 2]),
    ("/subjects/:.:s/versions", [1, 2]),
    ("/subjects/s/versions?deleted=true", [1, 2, 3]),
    ("/subjects/s/versions?deletedOnly=true", [3]),
    ("/subjects/s/versions/1/referencedby", [4]),
    ("/subjects/s/versions/2/referencedby", []),
    ("/schemas/ids/1/versions", [{"subject": "s", "version": 1}]),
    ("/schemas/ids/1/versions?deleted=true", [{"subject": "s", "version": 1}, {"subject": "t", "version": 1}]),
    ("/schemas/ids/1/versions?deleted=true&subject=t", [{"subject": "t", "version": 1}]),
    ("/schemas/ids/1/subjects", ["s"]),
    ("/schemas/ids/1/subjects?deleted=true", ["s", "t"]),
    ("/contexts", ["."]),
    ("/config", {"compatibilityLevel": "BACKWARD"}),
    ("/config/s?defaultToGlobal=true", {"compatibilityLevel": "BACKWARD"}),
    ("/mode", {"mode": "READWRITE"}),
    ("/mode/s?defaultToGlobal=true", {"mode": "READWRITE"}),
]


async def test_each_path_lists_what_it_should(ask: Client) -> None:
    await _filled(ask)
    for path, found in LISTS:
        assert await ask("GET", path) == (200, found), path
    for path, places in (
        ("/schemas", [("s", 1), ("s", 2), ("u", 1)]),
        ("/schemas?deleted=true", [("s", 1), ("s", 2), ("s", 3), ("t", 1), ("u", 1)]),
        ("/schemas?latestOnly=true", [("s", 2), ("u", 1)]),
        ("/schemas?subjectPrefix=s&latestOnly=true", [("s", 2)]),
        ("/schemas?offset=1&limit=1", [("s", 2)]),
    ):
        assert [(each["subject"], each["version"]) for each in (await ask("GET", path))[1]] == places, path


async def test_latest_is_the_last_one_that_is_not_deleted(ask: Client) -> None:
    await _filled(ask)
    for path, number in (("latest", 2), ("-1", 2), ("latest?deleted=true", 3), ("3?deleted=true", 3)):
        assert (await ask("GET", f"/subjects/s/versions/{path}"))[1]["version"] == number
    third = record("a", b=1, c=1)
    assert (await ask("POST", "/subjects/s", third))[1]["error_code"] == 40403
    assert (await ask("POST", "/subjects/s?deleted=true", third))[1]["version"] == 3
    assert await ask("DELETE", "/subjects/s/versions/latest") == (200, 2)


async def test_the_default_context_may_be_named(ask: Client) -> None:
    assert await ask("POST", "/subjects/:.:s/versions", record("a")) == (200, {"id": 1})
    assert (await ask("GET", "/subjects/s/versions/1"))[1]["subject"] == "s"
    assert await ask("PUT", "/config/:.:s", {"compatibility": "NONE"}) == (200, {"compatibility": "NONE"})
    assert await ask("GET", "/config/s") == (200, {"compatibilityLevel": "NONE"})
    assert await ask("POST", "/subjects/:.:s/versions", record("b")) == (200, {"id": 2})
    assert await ask("DELETE", "/subjects/:.:s") == (200, [1, 2])


@pytest.mark.parametrize(
    "body",
    [
        {"compatibility": "FULL", "compatibilityGroup": "g"},
        {"compatibility": "FULL", "normalize": True},
        {"compatibility": "FULL", "alias": "other"},
        {"compatibility": "FULL", "defaultMetadata": {"properties": {}}},
        {"compatibility": "FULL", "overrideRuleSet": {"domainRules": []}},
    ],
)
async def test_a_config_that_is_not_acted_on_is_refused(ask: Client, body: dict[str, Any]) -> None:
    status, answer = await ask("PUT", "/config/s", body)
    assert (status, answer["error_code"]) == (422, 42203) and list(body)[1] in answer["message"]
    assert (await ask("GET", "/config/s"))[1]["error_code"] == 40408
    assert (await ask("PUT", "/config/s", {"compatibility": "FULL", "normalize": False, "alias": None}))[0] == 200


@pytest.mark.parametrize("more", [{"metadata": {"properties": {"a": "b"}}}, {"ruleSet": {"domainRules": [{}]}}])
async def test_metadata_and_rules_are_refused(ask: Client, more: dict[str, Any]) -> None:
    status, answer = await ask("POST", "/subjects/s/versions", record("a") | more)
    assert (status, answer["error_code"]) == (422, 42201) and next(iter(more)) in answer["message"]
    empty = dict.fromkeys(more)
    assert await ask("POST", "/subjects/s/versions", record("a") | empty) == (200, {"id": 1})


async def test_a_normalized_schema_is_found_whatever_its_order(ask: Client) -> None:
    written = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": 1, "doc": "d"}]}
    other = {
        "fields": [{"doc": "d", "default": 1, "type": {"type": "int"}, "name": "a"}],
        "name": "R",
        "type": "record",
    }
    assert await ask("POST", "/subjects/s/versions?normalize=true", {"schema": json.dumps(written)}) == (200, {"id": 1})
    assert await ask("POST", "/subjects/s/versions?normalize=true", {"schema": json.dumps(other)}) == (200, {"id": 1})
    assert (await ask("POST", "/subjects/s?normalize=true", {"schema": json.dumps(other)}))[1]["id"] == 1


async def test_a_schema_cannot_refer_to_itself(ask: Client) -> None:
    """References lead to versions that are there before, so no cycle begins."""
    own = {**USER, "references": [{"name": "R", "subject": "u", "version": 1}]}
    assert (await ask("POST", "/subjects/u/versions", own))[1]["error_code"] == 42201
    assert await ask("GET", "/subjects") == (200, [])


async def test_what_newer_clients_ask_for_besides_is_not_found(ask: Client) -> None:
    """confluent-kafka takes 404 for no associations, and then names the subject by the topic."""
    await ask("POST", "/subjects/s/versions", record("a"))
    for path in ("/associations/resources/-/t", "/schemas/guids/00000000-0000-0000-0000-000000000001"):
        assert (await ask("GET", path))[0] == 404
