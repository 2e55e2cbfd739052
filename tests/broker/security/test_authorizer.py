"""The authorizer's rules are Kafka's, one by one, and its index finds what a look at every ACL finds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.security import authorizer as module
from odradek.broker.security.acls import (
    ALL_OPERATIONS,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    covers,
    mistake_in,
)
from odradek.broker.security.authorizer import Authorizer
from odradek.broker.security.hosts import mistake_in_host
from odradek.broker.security.principals import ANONYMOUS, Principal, user
from pytest import MonkeyPatch, mark

ALICE, HOST = user("alice"), "10.0.0.1"
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
TOPIC = ResourceType.TOPIC


def acl(
    name: str,
    operation: Operation = READ,
    *,
    who: str = "User:alice",
    host: str = "*",
    prefixed: bool = False,
    deny: bool = False,
    kind: ResourceType = TOPIC,
) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    permission = Permission.DENY if deny else Permission.ALLOW
    return Acl(int(kind), name, int(pattern), who, host, int(operation), int(permission))


def may(
    authorizer: Authorizer,
    operation: Operation = READ,
    name: str = "orders",
    who: Principal = ALICE,
    host: str = HOST,
    kind: ResourceType = TOPIC,
) -> bool:
    return authorizer.decide(who, host, operation, kind, name).is_allowed


def test_nothing_is_allowed_without_an_acl() -> None:
    assert Authorizer().decide(ALICE, HOST, READ, TOPIC, "orders") == (False, "DefaultDeny")


def test_an_acl_of_the_name_the_wildcard_or_a_prefix_allows() -> None:
    assert may(Authorizer([acl("orders")]))
    assert may(Authorizer([acl("*")]))
    assert may(Authorizer([acl("ord", prefixed=True)]))
    assert not may(Authorizer([acl("ord")]))
    assert not may(Authorizer([acl("orders-2", prefixed=True)]))
    # An asterisk is a letter like others in a prefix.
    assert not may(Authorizer([acl("*", prefixed=True)]))
    assert not may(Authorizer([acl("orders", kind=ResourceType.GROUP)]))


def test_what_denies_wins_over_all_that_allow() -> None:
    for denying in (acl("orders", deny=True), acl("*", deny=True), acl("o", prefixed=True, deny=True)):
        assert not may(Authorizer([acl("orders"), acl("*", ALL), denying]))
    assert not may(Authorizer([acl("orders"), acl("orders", ALL, deny=True)]))


def test_an_allowed_operation_implies_others_and_a_denied_one_does_not() -> None:
    for operation in (READ, WRITE, Operation.DELETE, Operation.ALTER, ALL):
        assert may(Authorizer([acl("orders", operation)]), DESCRIBE)
    for operation in (Operation.CREATE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS):
        assert not may(Authorizer([acl("orders", operation)]), DESCRIBE)
    assert may(Authorizer([acl("orders", Operation.ALTER_CONFIGS)]), Operation.DESCRIBE_CONFIGS)
    assert may(Authorizer([acl("orders", WRITE), acl("orders", READ, deny=True)]), DESCRIBE)


def test_a_principal_and_a_host_are_named_exactly_or_by_the_wildcard() -> None:
    assert not may(Authorizer([acl("orders", who="User:bob")]))
    assert not may(Authorizer([acl("orders", who="User:Alice")]))
    assert may(Authorizer([acl("orders", who="User:*")]))
    assert may(Authorizer([acl("orders", who="User:*")]), who=ANONYMOUS)
    assert not may(Authorizer([acl("orders", who="User:*")]), who=Principal("Group", "alice"))
    assert may(Authorizer([acl("orders", host=HOST)]))
    assert not may(Authorizer([acl("orders", host="10.0.0.2")]))


def test_a_super_user_may_do_everything() -> None:
    authorizer = Authorizer([acl("*", ALL, deny=True)], ["User:alice", "User:*"])
    assert authorizer.decide(ALICE, HOST, WRITE, TOPIC, "orders") == (True, "SuperUser")
    # No wildcard here.
    assert not may(authorizer, who=user("bob"))


def test_everyone_may_use_what_has_no_acl_of_anybody() -> None:
    authorizer = Authorizer([acl("orders", who="User:bob"), acl("pay", prefixed=True, who="User:bob")], (), True)
    assert may(authorizer, name="others")
    assert not may(authorizer, name="orders")
    assert not may(authorizer, name="payments")
    assert may(authorizer, name="orders", kind=ResourceType.GROUP)


def test_the_rule_names_the_acl_that_decides() -> None:
    found = Authorizer([acl("orders", deny=True)]).decide(ALICE, HOST, READ, TOPIC, "orders")
    assert found.rule == "MatchingAcl(acl=DENY READ on TOPIC:LITERAL:orders to User:alice from *)"


def test_a_change_counts_for_what_was_decided_before() -> None:
    authorizer = Authorizer()
    assert not may(authorizer)
    authorizer.change([acl("ord", prefixed=True)])
    assert may(authorizer)
    authorizer.change([], [acl("ord", prefixed=True)])
    assert not may(authorizer)
    assert authorizer.change_count == 2


def test_what_is_remembered_has_a_bound(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DECISIONS", 10)
    authorizer = Authorizer([acl("t", prefixed=True)])
    for at in range(100):
        assert may(authorizer, name=f"t{at}")
        assert len(authorizer.decisions) <= 10
    authorizer.change([])
    assert may(authorizer, name="t" * 1000)
    assert not authorizer.decisions


def test_authorized_operations_are_bits() -> None:
    assert Authorizer([acl("orders", ALL)]).operations(ALICE, HOST, TOPIC, "orders") == ALL_OPERATIONS[TOPIC] == 3576
    assert Authorizer([acl("orders")]).operations(ALICE, HOST, TOPIC, "orders") == 1 << READ | 1 << DESCRIBE
    assert (ALL_OPERATIONS[ResourceType.GROUP], ALL_OPERATIONS[ResourceType.CLUSTER]) == (3400, 8096)


@mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([acl("orders", WRITE)], True),
        ([acl("orders", READ)], False),
        ([acl("orders", ALL)], True),
        ([acl("orders", WRITE, who="User:bob")], False),
        ([acl("orders", WRITE), acl("*", WRITE, deny=True)], False),
        ([acl("orders", WRITE), acl("orders", WRITE, deny=True)], False),
        ([acl("orders", WRITE), acl("ord", WRITE, prefixed=True, deny=True)], False),
        ([acl("orders", WRITE), acl("orders-", WRITE, prefixed=True, deny=True)], True),
        ([acl("o", WRITE, prefixed=True), acl("orders", WRITE, deny=True)], True),
        ([acl("o", WRITE, prefixed=True), acl("o", WRITE, prefixed=True, deny=True)], False),
        ([acl("*", WRITE), acl("o", WRITE, prefixed=True, deny=True)], True),
    ],
)
def test_any_resource_of_a_type(acls: list[Acl], allowed: bool) -> None:
    assert Authorizer(acls).decide_by_type(ALICE, HOST, WRITE, TOPIC).is_allowed is allowed


def test_the_acls_of_others_are_not_looked_at(monkeypatch: MonkeyPatch) -> None:
    """With 20,000 ACLs each look at all of them took 20 ms: every idempotent producer asks for any resource."""
    others = [acl("orders", WRITE, who=f"User:{number}") for number in range(100)]
    authorizer = Authorizer([*others, acl("orders", READ), acl("orders", WRITE, who="User:*", host="10.0.0.2")])
    of_host, looks = module._of_host, list[Acl]()

    def count(some: Iterable[dict[Acl, Any]], host: str) -> Iterator[Acl]:
        kept = list(some)
        looks.extend(each for acls in kept for each in acls)
        return of_host(kept, host)

    monkeypatch.setattr(module, "_of_host", count)
    for _ in range(2):
        assert not authorizer.decide(ALICE, HOST, WRITE, TOPIC, "orders").is_allowed
        assert len(looks) == 2
    for _ in range(2):
        assert not authorizer.decide_by_type(ALICE, HOST, WRITE, TOPIC).is_allowed
        assert len(looks) == 4


@mark.parametrize(
    ("host", "inside", "outside"),
    [
        ("10.1.2.3/8", ["10.0.0.0", "10.255.255.255"], ["11.0.0.0", "0:0:0:0:0:0:0:1"]),
        ("10.1.2.3/31", ["10.1.2.2"], ["10.1.2.4"]),
        ("0.0.0.0/0", ["1.2.3.4"], ["0:0:0:0:0:0:0:1", "nobody"]),
        ("::1/64", ["0:0:0:0:0:0:0:1"], ["10.0.0.1", "0:0:0:1:0:0:0:1"]),
        ("fe80::/10", ["fe80:0:0:0:0:0:0:5%eth0"], ["fd00:0:0:0:0:0:0:5"]),
        ("1:2:3:4:5:6:7:8/128", ["1:2:3:4:5:6:7:8"], ["1:2:3:4:5:6:7:9"]),
        # Stored before there were ranges: it is a text, as it was.
        ("10.0.0.0/33", ["10.0.0.0/33"], ["10.0.0.0"]),
    ],
)
def test_the_host_of_an_acl_may_be_a_range(host: str, inside: list[str], outside: list[str]) -> None:
    allowed = Authorizer([acl("t", READ, host=host)])
    denied = Authorizer([acl("t", READ), acl("t", READ, host=host, deny=True)])
    for address in (*inside, *outside):
        is_inside = address in inside
        assert allowed.decide(ALICE, address, READ, TOPIC, "t").is_allowed is is_inside
        assert allowed.decide_by_type(ALICE, address, READ, TOPIC).is_allowed is is_inside
        # An ACL that denies wins, also over a wider one.
        assert denied.decide(ALICE, address, READ, TOPIC, "t").is_allowed is not is_inside


@mark.parametrize("host", [
    "*", "10.0.0.0/08", "010.0.0.0/8", "::1/+64", "::1/064", "::/0", "fe80::1%1/64", "localhost", "10.0.0.0/32",
])  # fmt: skip
def test_hosts_that_kafka_takes(host: str) -> None:
    assert mistake_in_host(host) == ""


@mark.parametrize("host", [
    "", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/008", "10.0.0.0/+8", "10.0.0.0/255.0.0.0", "10.0.0/8", "256.0.0.0/8", "/",
    "abc/8", "fe80::/200", "::g/3", "::ffff:10.0.0.1/104", "1.2.3.4/5/6", "::1/64/3", " 10.0.0.0/8", "1:2/8", "::1/",
])  # fmt: skip
def test_hosts_that_kafka_refuses(host: str) -> None:
    assert mistake_in_host(host)


def test_any_resource_follows_a_change_of_acls() -> None:
    authorizer = Authorizer([acl("a", READ)])
    assert not authorizer.decide_by_type(ALICE, HOST, WRITE, TOPIC).is_allowed
    authorizer.change([acl("b", WRITE)])
    assert authorizer.decide_by_type(ALICE, HOST, WRITE, TOPIC).is_allowed
    authorizer.change((), [acl("b", WRITE)])
    assert not authorizer.decide_by_type(ALICE, HOST, WRITE, TOPIC).is_allowed
    authorizer.change([acl("b", WRITE)])
    authorizer.change([acl("*", WRITE, deny=True)])
    assert not authorizer.decide_by_type(ALICE, HOST, WRITE, TOPIC).is_allowed


def test_a_longer_name_than_every_denied_prefix_is_no_hole() -> None:
    denials = [acl("o" * length, WRITE, prefixed=True, deny=True) for length in (3, 5)]
    for name, allowed in (("oooo", False), ("oo", True), ("ooo", False), ("oooooo", False), ("x", True)):
        found = Authorizer([*denials, acl(name, WRITE)]).decide_by_type(ALICE, HOST, WRITE, TOPIC)
        assert found.is_allowed is allowed, name


def test_any_resource_is_allowed_to_super_users_and_where_everyone_may() -> None:
    assert Authorizer([], ["User:alice"]).decide_by_type(ALICE, HOST, WRITE, TOPIC).is_allowed
    assert Authorizer([], [], True).decide_by_type(ALICE, HOST, WRITE, TOPIC).is_allowed


NAMES = st.text("ab*", min_size=1, max_size=4)
ACLS = st.builds(
    acl,
    NAMES,
    st.sampled_from([READ, WRITE, ALL]),
    who=st.sampled_from(["User:alice", "User:*", "User:bob"]),
    prefixed=st.booleans(),
    deny=st.booleans(),
)


@given(st.lists(ACLS), st.lists(ACLS), NAMES)
def test_the_index_finds_what_a_look_at_every_acl_finds(first: list[Acl], then: list[Acl], name: str) -> None:
    authorizer = Authorizer(first)
    authorizer.change(then, first[::2])
    left = [each for each in (*dict.fromkeys([*first, *then]),) if each not in first[::2] or each in then]
    covering = [each for each in left if covers(each, name)]
    mine = [each for each in covering if each.principal in ("User:alice", "User:*")]
    denied = any(each.permission == Permission.DENY and each.operation in (READ, ALL) for each in mine)
    allowed = any(each.permission == Permission.ALLOW and each.operation in (READ, ALL) for each in mine)
    assert may(authorizer, READ, name) is (allowed and not denied)


def test_a_filter_finds_exact_patterns_or_all_that_cover_a_name() -> None:
    literal, star, prefix = acl("orders"), acl("*"), acl("ord", prefixed=True)

    def found(pattern: PatternType, name: str | None) -> list[Acl]:
        wanted = AclFilter(1, name, pattern, None, None, 1, 1)
        return [each for each in (literal, star, prefix) if wanted.matches(each)]

    assert found(PatternType.ANY, None) == [literal, star, prefix]
    assert found(PatternType.ANY, "orders") == found(PatternType.LITERAL, "orders") == [literal]
    assert found(PatternType.MATCH, "orders") == [literal, star, prefix]
    assert found(PatternType.PREFIXED, "ord") == [prefix]
    assert found(PatternType.MATCH, "other") == [star]


@mark.parametrize(
    ("wrong", "why"),
    [
        (acl("a", kind=ResourceType.ANY), "Invalid resourceType ANY"),
        (acl("a")._replace(resource_type=99), "Invalid resourceType UNKNOWN"),
        (acl("a")._replace(pattern_type=2), "Invalid patternType MATCH"),
        (acl("a", Operation.ANY), "Invalid operation ANY"),
        (acl("a")._replace(permission=1), "Invalid permissionType ANY"),
        (acl(""), "Invalid empty resource name"),
        (acl("*", kind=ResourceType.CLUSTER), f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"),
        (acl("a", who="alice"), "Could not parse principal from `alice`"),
    ],
)
def test_an_acl_that_cannot_be_created_says_why(wrong: Acl, why: str) -> None:
    assert mistake_in(wrong).startswith(why)
    assert not mistake_in(acl("a"))
