"""Znodes of ACLs and users are those of Kafka 3.9, byte by byte, and what nobody would write is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from odradek.broker.cluster.security_znodes import (
    KINDS,
    Pattern,
    acl_path,
    credentials_of,
    decode_acl_change,
    decode_acls,
    decode_entity,
    encode_acl_change,
    encode_acls,
    encode_credential,
    quoted,
    unquoted,
    word_of,
)
from odradek.broker.cluster.znodes import BadZnode, decode_config_change, write_fields
from odradek.broker.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from odradek.broker.security.sasl.scram import Credential, credential_of

ORDERS = Pattern(int(ResourceType.TOPIC), "orders", int(PatternType.LITERAL))
PREFIX = Pattern(int(ResourceType.TRANSACTIONAL_ID), "ord-", int(PatternType.PREFIXED))
# As kafka-acls of Kafka 3.9.1 has written them.
KAFKAS = (
    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"DescribeConfigs",'
    b'"host":"*"}]}'
)
ALICE = Acl(*ORDERS, "User:alice", "*", int(Operation.DESCRIBE_CONFIGS), int(Permission.ALLOW))

operations = st.sampled_from([each for each in Operation if each > Operation.ANY])
acls = st.builds(
    lambda principal, host, operation, permission: Acl(*PREFIX, principal, host, int(operation), int(permission)),
    st.text(min_size=1, max_size=9).map("User:{}".format),
    st.sampled_from(("*", "10.0.0.1", "0:0:0:0:0:0:0:1")),
    operations,
    st.sampled_from((Permission.ALLOW, Permission.DENY)),
)


def test_acls_are_written_as_kafka_writes_them() -> None:
    assert (encode_acls([ALICE]), acl_path(ORDERS)) == (KAFKAS, "/kafka-acl/Topic/orders")
    assert acl_path(PREFIX) == "/kafka-acl-extended/prefixed/TransactionalId/ord-"
    assert [word_of(each) for each in KINDS] == [
        *("Topic", "Group", "Cluster", "TransactionalId", "DelegationToken", "User")
    ]


@pytest.mark.parametrize("word", [b"DescribeConfigs", b"DESCRIBECONFIGS"])
def test_acls_are_read_in_both_forms_of_kafka(word: bytes) -> None:
    assert decode_acls(ORDERS, KAFKAS.replace(b"DescribeConfigs", word)) == [ALICE]


@given(st.lists(acls, max_size=5))
def test_what_is_written_is_read(some: list[Acl]) -> None:
    assert decode_acls(PREFIX, encode_acls(some)) == some


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"acls":[1]}',
        KAFKAS.replace(b"DescribeConfigs", b"Fly"),
        KAFKAS.replace(b"Allow", b"Unknown"),
        KAFKAS.replace(b'"host":"*"', b'"host":1'),
    ],
)
def test_a_znode_that_nobody_would_write_is_named(content: bytes) -> None:
    with pytest.raises(BadZnode, match="/kafka-acl/Topic/orders"):
        decode_acls(ORDERS, content)


@pytest.mark.parametrize(
    ("pattern", "path", "content"),
    [
        (ORDERS, "/kafka-acl-changes/acl_changes_", b"TOPIC:orders"),
        (
            PREFIX,
            "/kafka-acl-extended-changes/acl_changes_",
            b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"ord-","patternType":"PREFIXED"}',
        ),
    ],
)
def test_a_change_of_acls_is_told_as_kafka_tells_it(pattern: Pattern, path: str, content: bytes) -> None:
    assert encode_acl_change(pattern) == (path, content)
    assert decode_acl_change(f"{path}0000000007", content) == pattern


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\n"])
def test_a_change_of_what_no_znode_is_called_is_named(name: str) -> None:
    # Asking ZooKeeper for it would fail each time, and no later change would be read.
    extended = write_fields({"version": 1, "resourceType": "TOPIC", "name": name, "patternType": "PREFIXED"})
    for path, content in (("/kafka-acl-changes", f"TOPIC:{name}".encode()), ("/kafka-acl-extended-changes", extended)):
        with pytest.raises(BadZnode, match="no znode can have the name"):
            decode_acl_change(f"{path}/acl_changes_0000000007", content)


@pytest.mark.parametrize("place", ["users/", "users//clients/c", "clients/..", "ips", "users/\t"])
def test_a_change_of_what_no_entity_is_called_is_named(place: str) -> None:
    with pytest.raises(BadZnode, match="no znode can have the name"):
        decode_config_change("/config/changes/c", write_fields({"version": 2, "entity_path": place}))


@pytest.mark.parametrize("content", [b"", b"TOPIC", b"SHIP:orders", None])
def test_a_change_of_nothing_is_named(content: bytes | None) -> None:
    for parent in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
        with pytest.raises(BadZnode):
            decode_acl_change(f"{parent}/acl_changes_0000000007", content)


def test_users_are_quoted_as_kafkas_sanitizer_does() -> None:
    names = {"CN=a b,O=x*~": "CN%3Da%20b%2CO%3Dx%2A%7E", "alice": "alice", "\u00e4.-_": "%C3%A4.-_"}
    assert {name: quoted(name) for name in names} == names
    assert [unquoted(each) for each in names.values()] == list(names)


def test_passwords_are_kept_as_kafka_keeps_them() -> None:
    credential = credential_of("SCRAM-SHA-256", b"salted", b"salt", 4096)
    text = encode_credential(credential)
    assert text.startswith("salt=c2FsdA==,stored_key=") and text.endswith(",iterations=4096")
    configs = {"SCRAM-SHA-256": text, "producer_byte_rate": "1024"}
    assert credentials_of("/config/users/alice", configs) == {"SCRAM-SHA-256": credential}


@given(st.binary(), st.binary(), st.binary(), st.integers(1, 10**6))
def test_a_password_that_is_written_is_read(salt: bytes, stored: bytes, server: bytes, iterations: int) -> None:
    credential = Credential(salt, stored, server, iterations)
    configs = {"SCRAM-SHA-512": encode_credential(credential)}
    assert credentials_of("/config/users/a", configs) == {"SCRAM-SHA-512": credential}


@pytest.mark.parametrize("text", ["", "salt=!,stored_key=,server_key=,iterations=1", "salt=,stored_key=,server_key=s3"])
def test_an_error_in_a_password_shows_nothing_of_it(text: str) -> None:
    with pytest.raises(BadZnode) as caught:
        credentials_of("/config/users/alice", {"SCRAM-SHA-256": text})
    assert text not in str(caught.value) or not text
    with pytest.raises(BadZnode) as caught:
        decode_entity("/config/users/alice", b'{"config": "salt=secret"')
    assert "secret" not in str(caught.value)
