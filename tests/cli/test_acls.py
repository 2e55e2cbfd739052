"""`odradek acls` against a broker with an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from odradek.broker import Broker, BrokerConfig
from odradek.tests.support.documents.command import rows, run
from odradek.tests.support.security.principals import ADMIN, secured


@pytest.fixture
def guarded(config: BrokerConfig) -> Iterator[str]:
    """The address of a broker where everyone may use what has no ACL; nobody here proves who they are."""
    with Broker(replace(secured(config), allow_everyone_if_no_acl_found=True)) as broker:
        yield broker.address


def test_acls_are_added_listed_and_removed(guarded: str) -> None:
    at = ("-b", guarded)
    added = ["User:alice", "allow", "read", "topic:orders*", "*"]
    assert rows("acls", "add", "alice", "read", "topic:orders*", *at) == [added]
    denied = ["User:*", "deny", "delete", "group:report", "10.0.0.1"]
    assert rows("acls", "add", "User:*", "delete", "group:report", "--deny", "--host", "10.0.0.1", *at) == [denied]
    assert sorted(rows("acls", "list", *at)) == sorted([added, denied])
    assert rows("acls", "list", "--principal", "alice", *at) == [added]
    assert rows("acls", "list", "--resource", "topic:orders-1", *at) == [added]
    remove = ("acls", "remove", "alice", "read", "topic:orders*", *at)
    assert rows(*remove, "--dry-run") == [added]
    assert rows(*remove) == [added]
    assert rows(*remove) == []
    assert rows("acls", "list", *at) == [denied]


def test_a_dry_run_adds_nothing(guarded: str) -> None:
    assert rows("acls", "add", "alice", "read", "topic:orders", "--dry-run", "-b", guarded)
    assert rows("acls", "list", "-b", guarded) == []


def test_explain_names_the_rule_that_decides(guarded: str) -> None:
    def explained(*args: str) -> list[str]:
        (row,) = rows("acls", "explain", *args, "-b", guarded)
        return row[-2:]

    assert explained("alice", "write", "topic:orders") == ["allowed", "DefaultAllow"]
    rows("acls", "add", "alice", "read", "topic:orders", "-b", guarded)
    rule = "MatchingAcl(acl=ALLOW READ on TOPIC:LITERAL:orders to User:alice from *)"
    assert explained("alice", "describe", "topic:orders") == ["allowed", rule]
    assert explained("alice", "write", "topic:orders") == ["denied", "DefaultDeny"]
    assert explained(ADMIN, "write", "topic:orders") == ["allowed", "SuperUser"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("read", "orders"), "a resource is one of topic, group"),
        (("fly", "topic:orders"), "takes all, read, write"),
        (("read", "thing:orders"), "a resource is one of topic, group"),
    ],
)
@pytest.mark.parametrize("verb", ["add", "remove", "explain"])
def test_what_is_misspelt_is_said(verb: str, args: tuple[str, ...], says: str) -> None:
    result = run("acls", verb, "alice", *args, "-b", "127.0.0.1:1")
    assert result.exit_code in (1, 2)
    assert says in result.stderr


def test_a_broker_without_an_authorizer_says_so(config: BrokerConfig) -> None:
    with Broker(config) as broker:
        result = run("acls", "list", "-b", broker.address)
    assert (result.exit_code, "No Authorizer is configured" in result.stderr) == (1, True)


def test_an_acl_that_is_not_created_is_named_plainly() -> None:
    with Broker.ephemeral() as broker:
        result = run("acls", "add", "alice", "read", "topic:x*", "-b", broker.address)
    assert result.exit_code == 1
    assert "the ACL (allow User:alice read topic:x* from *) was not created" in result.output


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("user:alice", "read", "topic:t"), "User:alice"),
        (("Group:ops", "read", "topic:t"), "User:ops"),
        ((" alice", "read", "topic:t"), "User:alice"),
        (("User:", "read", "topic:t"), "User:NAME"),
        (("alice", "read", "topic:or*ders"), "topic:or*"),
        (("alice", "read", "topic:a b"), "no topic has such a name"),
        (("alice", "write", "group:g"), "it takes all, read, delete, describe"),
        (("alice", "read", "cluster"), "it takes all, create"),
        (("alice", "read", "transactional_id:x"), "describe, write"),
        (("alice", "read", "topic:t", "--host", "::1"), "0:0:0:0:0:0:0:1"),
        (("alice", "read", "topic:t", "--host", "::ffff:10.0.0.7"), "sees it as 10.0.0.7"),
        (("alice", "read", "topic:t", "--host", "10.0.0.0/33"), "a range as 10.0.0.0/8"),
        (("alice", "read", "topic:t", "--host", "localhost"), "give an IP address"),
        (("alice", "read", "topic:t", "--host", " 10.0.0.1"), "sees it as 10.0.0.1"),
        (("alice", "read", "topic:t", "--host", ""), "give an IP address"),
    ],
)
@pytest.mark.parametrize("deny", [(), ("--deny",)])
def test_what_can_match_nobody_is_refused_with_the_form_that_would(
    deny: tuple[str, ...], args: tuple[str, ...], says: str
) -> None:
    result = run("acls", "add", *args, *deny, "-b", "127.0.0.1:1")
    assert (result.exit_code, says in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("host", ["::1", "0:0:0:0:0:0:0:1", "::0001"])
def test_explain_decides_by_the_address_as_the_broker_sees_it(guarded: str, host: str) -> None:
    rows("acls", "add", "alice", "read", "topic:t", "--deny", "--host", "0:0:0:0:0:0:0:1", "-b", guarded)
    ((*_, seen, decision, _),) = rows("acls", "explain", "alice", "read", "topic:t", "--host", host, "-b", guarded)
    assert (seen, decision) == ("0:0:0:0:0:0:0:1", "denied")


def test_explain_takes_no_host_that_is_no_address(guarded: str) -> None:
    result = run("acls", "explain", "alice", "read", "topic:t", "--host", "localhost", "-b", guarded)
    assert result.exit_code == 2 and "IP address" in result.stderr


@pytest.mark.parametrize("resource", ["group:or*ders", "topic:orders*", "topic:.*", "topic:*", "cluster"])
def test_what_can_match_is_added(guarded: str, resource: str) -> None:
    assert rows("acls", "add", "alice", "all", resource, "--host", "10.0.0.1", "-b", guarded)
